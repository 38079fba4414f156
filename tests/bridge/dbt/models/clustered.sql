{{ config(materialized='table', liquid_clustered_by='id') }}
select * from {{ ref('ducks_of_day') }}
