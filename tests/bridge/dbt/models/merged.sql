{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id', on_schema_change='append_new_columns') }}
select id, name, weight {% if var('day') | int > 1 %}, 'day {{ var('day') }}' as told {% endif %} from {{ ref('ducks_of_day') }}
