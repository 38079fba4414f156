{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['hatched']) }}
select id, name, hatched from {{ ref('ducks_of_day') }} {% if is_incremental() %} where hatched = date'2024-01-02' {% endif %}
