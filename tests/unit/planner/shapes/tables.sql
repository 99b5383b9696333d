-- fact tables, with the partition keys as last columns
CREATE TABLE sales (v BIGINT, store INT, item BIGINT, day INT) USING parquet PARTITIONED BY (day);
CREATE TABLE returns (v BIGINT, store INT, item BIGINT, day INT) USING parquet PARTITIONED BY (day);
CREATE TABLE visits (v BIGINT, d DATE, k STRING) USING orc PARTITIONED BY (d, k);
CREATE TABLE logs (v BIGINT) PARTITIONED BY (day INT) STORED AS textfile;
CREATE TABLE amounts (v BIGINT, m DECIMAL(6, 2)) USING parquet PARTITIONED BY (m);
CREATE TABLE events (v BIGINT, t TIMESTAMP) USING parquet PARTITIONED BY (t);
CREATE TABLE clicks (v BIGINT, n BIGINT) USING parquet PARTITIONED BY (n);
CREATE TABLE ticks (v BIGINT, b TINYINT) USING parquet PARTITIONED BY (b);
CREATE TABLE ratios (v BIGINT, x FLOAT) USING parquet PARTITIONED BY (x);
CREATE TABLE labels (v BIGINT, s STRING) USING parquet PARTITIONED BY (s);
CREATE TABLE flags (v BIGINT, ok BOOLEAN) USING parquet PARTITIONED BY (ok);
-- dimension tables
CREATE TABLE days (id INT, name STRING, week INT, d DATE, k STRING, s STRUCT<a: INT, b: INT>) USING parquet;
CREATE TABLE weeks (week INT, no BIGINT, year INT) USING parquet;
CREATE TABLE years (year INT, label STRING) USING parquet;
CREATE TABLE stores (id INT, region STRING, opened INT) USING parquet;
CREATE TABLE items (id BIGINT, brand STRING, price DECIMAL(8, 3)) USING parquet;
CREATE TABLE kinds (n BIGINT, i INT, sh SMALLINT, b TINYINT, m DECIMAL(8, 3), x DOUBLE, f FLOAT, s STRING, lc STRING COLLATE UTF8_LCASE, d DATE, t TIMESTAMP, z TIMESTAMP_NTZ, ok BOOLEAN) USING parquet;
CREATE TABLE legacy (id INT, name STRING) STORED AS textfile;
-- huge exceeds the limit for reading join keys; the size of unknown is not known
CREATE TABLE huge (id INT, name STRING) USING parquet;
CREATE TABLE unknown (id INT, name STRING) USING parquet;
-- too large for a broadcast, but small enough for reading join keys
CREATE TABLE middling (id INT, name STRING) USING parquet;
CREATE VIEW tagged AS SELECT v, day AS tag FROM sales WHERE v >= 0;
