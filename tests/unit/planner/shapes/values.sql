-- computed key of the fact
SELECT v FROM (SELECT v, day * 2 AS twice FROM sales) f JOIN days d ON f.twice + 1 = d.id WHERE d.week = 2;
--> (twice + 1) of sales = days.id
--> run once: days for id, name, week, d, k, s
-- computed key of the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id + 1 WHERE d.week = 2;
--> sales.day = (days.id + 1)
--> run once: days for id, name, week, d, k, s
-- key computed of two partition columns
SELECT f.v FROM visits f JOIN days d ON concat(f.k, CAST(f.d AS STRING)) = d.name WHERE d.week = 2;
--> Concat(visits.k, CAST(visits.d AS string)) of visits = days.name
--> run once: days for id, name, week, d, k, s
-- key computed of a partition column and another one
SELECT f.v FROM sales f JOIN days d ON f.day + f.store = d.id WHERE d.week = 2;
--> sales: a join condition combines the partition columns with other columns.
-- key computed by a function that depends on chance
SELECT f.v FROM (SELECT v, day + rand() AS r FROM sales) f JOIN days d ON f.r = d.id WHERE d.week = 2;
--> sales: keys are not applied below an expression that also depends on other values, which is above this table.
--> sales: the query calls functions that are not deterministic.
-- key of a case
SELECT f.v FROM sales f JOIN days d ON CASE WHEN f.day > 3 THEN f.day ELSE 0 END = d.id WHERE d.week = 2;
--> CaseWhen((sales.day > 3), sales.day, 0) of sales = days.id
--> run once: days for id, name, week, d, k, s
-- key of a coalesce
SELECT f.v FROM sales f JOIN days d ON coalesce(f.day, 0) = d.id WHERE d.week = 2;
--> Coalesce(sales.day, 0) of sales = days.id
--> run once: days for id, name, week, d, k, s
-- year of the partition column
SELECT f.v FROM visits f JOIN years y ON year(f.d) = y.year WHERE y.label = 'y';
--> Year(visits.d) of visits = years.year
--> run once: years for year, label
-- key that is renamed twice
SELECT g.b FROM (SELECT a AS b FROM (SELECT day AS a FROM sales) e) g JOIN days d ON g.b = d.id WHERE d.week = 2;
--> b of sales = days.id
--> run once: days for id, name, week, d, k, s
-- int fact, bigint key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.n WHERE k.i = 1;
--> sales.day = kinds.n
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- int fact, smallint key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.sh WHERE k.i = 1;
--> sales.day = CAST(kinds.sh AS integer)
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- int fact, decimal key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.m WHERE k.i = 1;
--> sales.day = CAST(kinds.m AS decimal(13,3))
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- int fact, double key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.x WHERE k.i = 1;
--> KnownFloatingPointNormalized(NormalizeNaNAndZero(CAST(sales.day AS double))) of sales = KnownFloatingPointNormalized(NormalizeNaNAndZero(kinds.x))
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- int fact, string key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.s WHERE k.i = 1;
--> [4] sales.day = CAST(kinds.s AS long)
--> [3.5] sales.day = CAST(kinds.s AS integer)
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- int fact, date key as text
SELECT f.v FROM sales f JOIN kinds k ON f.day = CAST(date_format(k.d, 'yyyyMMdd') AS INT) WHERE k.i = 1;
--> sales.day = CAST(DateFormatClass(CAST(kinds.d AS timestamp), yyyyMMdd) AS integer)
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- bigint fact, int key
SELECT f.v FROM clicks f JOIN kinds k ON f.n = k.i WHERE k.b = 1;
--> clicks.n = CAST(kinds.i AS long)
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- bigint fact narrowed to int
SELECT f.v FROM clicks f JOIN kinds k ON CAST(f.n AS INT) = k.i WHERE k.b = 1;
--> CAST(clicks.n AS integer) of clicks = kinds.i
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- tinyint fact, bigint key
SELECT f.v FROM ticks f JOIN kinds k ON f.b = k.n WHERE k.i = 1;
--> ticks.b = kinds.n
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- decimal fact, wider decimal key
SELECT f.v FROM amounts f JOIN kinds k ON f.m = k.m WHERE k.i = 1;
--> amounts.m = kinds.m
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- decimal fact, int key
SELECT f.v FROM amounts f JOIN kinds k ON f.m = k.i WHERE k.b = 1;
--> amounts.m = CAST(kinds.i AS decimal(12,2))
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- float fact, double key
SELECT f.v FROM ratios f JOIN kinds k ON f.x = k.x WHERE k.i = 1;
--> ratios.x = KnownFloatingPointNormalized(NormalizeNaNAndZero(kinds.x))
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- float fact, float key
SELECT f.v FROM ratios f JOIN kinds k ON f.x = k.f WHERE k.i = 1;
--> ratios.x = KnownFloatingPointNormalized(NormalizeNaNAndZero(kinds.f))
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- string fact, string key
SELECT f.v FROM labels f JOIN kinds k ON f.s = k.s WHERE k.i = 1;
--> labels.s = kinds.s
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- string fact, int key
SELECT f.v FROM labels f JOIN kinds k ON f.s = k.i WHERE k.b = 1;
--> [4] CAST(labels.s AS long) of labels = CAST(kinds.i AS long)
--> [3.5] CAST(labels.s AS integer) of labels = kinds.i
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- string fact, collated key
SELECT f.v FROM labels f JOIN kinds k ON f.s COLLATE UTF8_LCASE = k.lc WHERE k.i = 1;
--> labels: keys of type string collate UTF8_LCASE can only be compared by Spark.
-- string fact, collated key compared by bytes
SELECT f.v FROM labels f JOIN kinds k ON f.s = k.lc COLLATE UTF8_BINARY WHERE k.i = 1;
--> [4.0] labels.s = Collate(kinds.lc, ResolvedCollation())
--> [4.0] run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
--> [4.3] labels: keys of type string collate UTF8_BINARY can only be compared by Spark.
-- string fact in upper case
SELECT f.v FROM labels f JOIN kinds k ON upper(f.s) = k.s WHERE k.i = 1;
--> Upper(labels.s) of labels = kinds.s
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- date fact, date key
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.d WHERE k.i = 1;
--> visits.d = kinds.d
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- date fact, timestamp key
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.t WHERE k.i = 1;
--> CAST(visits.d AS timestamp) of visits = kinds.t
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- date fact, key without a zone
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.z WHERE k.i = 1;
--> visits.d = kinds.z
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- date fact, string key
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.s WHERE k.i = 1;
--> visits.d = CAST(kinds.s AS date)
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- timestamp fact, date key
SELECT f.v FROM events f JOIN kinds k ON f.t = k.d WHERE k.i = 1;
--> events.t = CAST(kinds.d AS timestamp)
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- timestamp fact as a date
SELECT f.v FROM events f JOIN kinds k ON CAST(f.t AS DATE) = k.d WHERE k.i = 1;
--> CAST(events.t AS date) of events = kinds.d
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- timestamp fact, key without a zone
SELECT f.v FROM events f JOIN kinds k ON f.t = k.z WHERE k.i = 1;
--> events.t = CAST(kinds.z AS timestamp)
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- boolean fact
SELECT f.v FROM flags f JOIN kinds k ON f.ok = k.ok WHERE k.i = 1;
--> flags.ok = kinds.ok
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- struct key
SELECT f.v FROM visits f JOIN days d ON struct(f.d, f.k) = struct(d.d, d.k) WHERE d.week = 2;
--> visits: keys of type struct<d:date,k:string> can only be compared by Spark.
-- array key
SELECT f.v FROM sales f JOIN days d ON array(f.day) = array(d.id) WHERE d.week = 2;
--> sales: keys of type array<int> can only be compared by Spark.
-- two facts through a narrowing cast
SELECT f.v FROM sales f JOIN clicks c ON f.day = CAST(c.n AS INT) JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> sales.day = kept CAST(clicks.n AS integer)
--> CAST(clicks.n AS integer) of clicks = days.id
--> CAST(clicks.n AS integer) of clicks = kept sales.day
--> run once: days for id, name, week, d, k, s
-- static condition on one key
SELECT f.v FROM visits f JOIN days d ON f.d = d.d WHERE f.k > 'k0' AND d.week = 1;
--> visits.d = days.d
--> visits only where (visits.k > k0)
--> run once: days for id, name, week, d, k, s
-- static condition on a computed key
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE f.day % 2 = 0 AND d.week = 1;
--> sales.day = days.id
--> sales only where ((sales.day % 2) = 0)
--> run once: days for id, name, week, d, k, s
-- static condition below a union
SELECT u.v FROM (SELECT v, day FROM sales WHERE day > 3 UNION ALL SELECT v, day FROM returns) u JOIN days d ON u.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales only where (sales.day > 3)
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- static condition with a data column
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE f.day > f.v AND d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- static IN list
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE f.day IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) AND d.week = 1;
--> sales.day = days.id
--> sales only where InSet(sales.day)
--> run once: days for id, name, week, d, k, s
-- static condition that is null
SELECT f.v FROM sales f JOIN days d ON f.store = d.id WHERE f.day IS NULL AND d.week = 1;
--> sales only where IsNull(sales.day)
