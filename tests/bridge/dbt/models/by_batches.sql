{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='hatched', begin='2024-01-01', batch_size='day',
          partition_by=['hatched']) }}
select id, name, hatched from {{ ref('ducks_of_day') }}
