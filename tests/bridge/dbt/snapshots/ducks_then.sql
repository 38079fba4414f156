{% snapshot ducks_then %}
{{ config(target_schema=target.schema, unique_key='id', strategy='check', check_cols=['weight'], hard_deletes='invalidate') }}
select * from {{ ref('ducks_of_day') }}
{% endsnapshot %}
