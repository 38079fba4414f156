{{ config(materialized='incremental', incremental_strategy='append') }}
select id, {{ var('day') }} as day from {{ ref('ducks_of_day') }}
