{{ config(materialized='table') }}
select id, name from {{ ref('ducks_of_day') }}
