-- computed key of the fact
SELECT v FROM (SELECT v, day * 2 AS twice FROM sales) f JOIN days d ON f.twice + 1 = d.id WHERE d.week = 2;
-- computed key of the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id + 1 WHERE d.week = 2;
-- key computed of two partition columns
SELECT f.v FROM visits f JOIN days d ON concat(f.k, CAST(f.d AS STRING)) = d.name WHERE d.week = 2;
-- key computed of a partition column and another one
SELECT f.v FROM sales f JOIN days d ON f.day + f.store = d.id WHERE d.week = 2;
-- key computed by a function that depends on chance
SELECT f.v FROM (SELECT v, day + rand() AS r FROM sales) f JOIN days d ON f.r = d.id WHERE d.week = 2;
-- key of a case
SELECT f.v FROM sales f JOIN days d ON CASE WHEN f.day > 3 THEN f.day ELSE 0 END = d.id WHERE d.week = 2;
-- key of a coalesce
SELECT f.v FROM sales f JOIN days d ON coalesce(f.day, 0) = d.id WHERE d.week = 2;
-- year of the partition column
SELECT f.v FROM visits f JOIN years y ON year(f.d) = y.year WHERE y.label = 'y';
-- key that is renamed twice
SELECT g.b FROM (SELECT a AS b FROM (SELECT day AS a FROM sales) e) g JOIN days d ON g.b = d.id WHERE d.week = 2;
-- int fact, bigint key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.n WHERE k.i = 1;
-- int fact, smallint key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.sh WHERE k.i = 1;
-- int fact, decimal key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.m WHERE k.i = 1;
-- int fact, double key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.x WHERE k.i = 1;
-- int fact, string key
SELECT f.v FROM sales f JOIN kinds k ON f.day = k.s WHERE k.i = 1;
-- int fact, date key as text
SELECT f.v FROM sales f JOIN kinds k ON f.day = CAST(date_format(k.d, 'yyyyMMdd') AS INT) WHERE k.i = 1;
-- bigint fact, int key
SELECT f.v FROM clicks f JOIN kinds k ON f.n = k.i WHERE k.b = 1;
-- bigint fact narrowed to int
SELECT f.v FROM clicks f JOIN kinds k ON CAST(f.n AS INT) = k.i WHERE k.b = 1;
-- tinyint fact, bigint key
SELECT f.v FROM ticks f JOIN kinds k ON f.b = k.n WHERE k.i = 1;
-- decimal fact, wider decimal key
SELECT f.v FROM amounts f JOIN kinds k ON f.m = k.m WHERE k.i = 1;
-- decimal fact, int key
SELECT f.v FROM amounts f JOIN kinds k ON f.m = k.i WHERE k.b = 1;
-- float fact, double key
SELECT f.v FROM ratios f JOIN kinds k ON f.x = k.x WHERE k.i = 1;
-- float fact, float key
SELECT f.v FROM ratios f JOIN kinds k ON f.x = k.f WHERE k.i = 1;
-- string fact, string key
SELECT f.v FROM labels f JOIN kinds k ON f.s = k.s WHERE k.i = 1;
-- string fact, int key
SELECT f.v FROM labels f JOIN kinds k ON f.s = k.i WHERE k.b = 1;
-- string fact, collated key
SELECT f.v FROM labels f JOIN kinds k ON f.s COLLATE UTF8_LCASE = k.lc WHERE k.i = 1;
-- string fact, collated key compared by bytes
SELECT f.v FROM labels f JOIN kinds k ON f.s = k.lc COLLATE UTF8_BINARY WHERE k.i = 1;
-- string fact in upper case
SELECT f.v FROM labels f JOIN kinds k ON upper(f.s) = k.s WHERE k.i = 1;
-- date fact, date key
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.d WHERE k.i = 1;
-- date fact, timestamp key
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.t WHERE k.i = 1;
-- date fact, key without a zone
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.z WHERE k.i = 1;
-- date fact, string key
SELECT f.v FROM visits f JOIN kinds k ON f.d = k.s WHERE k.i = 1;
-- timestamp fact, date key
SELECT f.v FROM events f JOIN kinds k ON f.t = k.d WHERE k.i = 1;
-- timestamp fact as a date
SELECT f.v FROM events f JOIN kinds k ON CAST(f.t AS DATE) = k.d WHERE k.i = 1;
-- timestamp fact, key without a zone
SELECT f.v FROM events f JOIN kinds k ON f.t = k.z WHERE k.i = 1;
-- boolean fact
SELECT f.v FROM flags f JOIN kinds k ON f.ok = k.ok WHERE k.i = 1;
-- struct key
SELECT f.v FROM visits f JOIN days d ON struct(f.d, f.k) = struct(d.d, d.k) WHERE d.week = 2;
-- array key
SELECT f.v FROM sales f JOIN days d ON array(f.day) = array(d.id) WHERE d.week = 2;
-- two facts through a narrowing cast
SELECT f.v FROM sales f JOIN clicks c ON f.day = CAST(c.n AS INT) JOIN days d ON f.day = d.id WHERE d.week = 2;
-- static condition on one key
SELECT f.v FROM visits f JOIN days d ON f.d = d.d WHERE f.k > 'k0' AND d.week = 1;
-- static condition on a computed key
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE f.day % 2 = 0 AND d.week = 1;
-- static condition below a union
SELECT u.v FROM (SELECT v, day FROM sales WHERE day > 3 UNION ALL SELECT v, day FROM returns) u JOIN days d ON u.day = d.id WHERE d.week = 1;
-- static condition with a data column
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE f.day > f.v AND d.week = 1;
-- static IN list
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE f.day IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) AND d.week = 1;
-- static condition that is null
SELECT f.v FROM sales f JOIN days d ON f.store = d.id WHERE f.day IS NULL AND d.week = 1;
