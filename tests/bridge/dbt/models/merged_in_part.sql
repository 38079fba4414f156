{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id', 'name'], merge_update_columns=['weight'],
          incremental_predicates=['DBT_INTERNAL_DEST.id < 3']) }}
select id, name, weight, {{ var('day') }} as day from {{ ref('ducks_of_day') }} where id < 3
