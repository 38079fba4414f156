{{ config(materialized='table', partition_by='hatched', tblproperties={'delta.enableChangeDataFeed': 'true'}) }}
select * from {{ ref('ducks_of_day') }} where weight > 1
