select * from {{ ref('heavy') }} where weight <= 0
