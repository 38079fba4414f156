{% snapshot ducks_since %}
{{ config(target_schema=target.schema, unique_key='id', strategy='timestamp', updated_at='seen') }}
select *, timestamp'2024-01-01' + make_interval(0, 0, 0, {{ var('day') }}) as seen from {{ ref('ducks_of_day') }}
{% endsnapshot %}
