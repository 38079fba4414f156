{{ config(materialized='view') }}
select cast(id as bigint) as id, name, cast(weight as double) * {{ var('day') }} as weight, cast(hatched as date) as hatched from {{ ref('ducks') }}
{% if var('day') | int > 1 %} union all select {{ var('day') }} + 10L, 'new', 1.0D, date'2024-01-02' {% endif %}
