-- below a union
SELECT u.v, d.name FROM (SELECT v, day FROM sales UNION ALL SELECT v, day FROM returns) u JOIN days d ON u.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- below a union of one fact twice
SELECT u.v FROM (SELECT v, day FROM sales WHERE v > 3 UNION ALL SELECT v, day FROM sales WHERE v < 2) u JOIN days d ON u.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day of sales2 = days.id
--> run once: days for id, name, week, d, k, s
-- below a union of different types
SELECT u.v FROM (SELECT v, day FROM sales UNION ALL SELECT v, n FROM clicks) u JOIN kinds d ON u.day = d.n WHERE d.i = 1;
--> day of sales = kinds.n
--> day of clicks = kinds.n
--> run once: kinds for n, i, sh, b, m, x, f, s, lc, d, t, z, ok
-- below a union with another column
SELECT u.v FROM (SELECT v, day FROM sales UNION ALL SELECT v, store FROM returns) u JOIN days d ON u.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below a union with a computed column
SELECT u.v FROM (SELECT v, day FROM sales UNION ALL SELECT v, day * 2 FROM returns) u JOIN days d ON u.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- below a union that tells its inputs apart
SELECT t.kind, t.v FROM (SELECT 's' AS kind, v, day FROM sales UNION ALL SELECT 'r', v, day FROM returns) t JOIN days d ON t.day = d.id WHERE t.kind = 's' AND d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
--> unread: returns
-- below a union by name
SELECT u.v FROM (SELECT v, day FROM sales UNION SELECT v, day FROM returns) u JOIN days d ON u.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- union of joins
SELECT f.v FROM sales f JOIN days d ON f.day = d.id AND d.week = 1 UNION ALL SELECT r.v FROM returns r JOIN days e ON r.day = e.id AND e.name = 'n3';
--> sales.day = days.id
--> returns.day = days2.id
--> run once: days for id, week
--> run once: days2 for id, name
--> share a broadcast: returns, sales
-- union of a join and the whole table
SELECT f.v FROM sales f JOIN days d ON f.day = d.id AND d.week = 1 UNION ALL SELECT v FROM sales;
--> sales.day = days.id
--> run once: days for id, week
-- dimension that is a union
SELECT f.v FROM sales f JOIN (SELECT id FROM days WHERE week = 1 UNION ALL SELECT opened FROM stores) u ON f.day = u.id;
--> sales.day = days.id
-- below INTERSECT
SELECT x.v FROM (SELECT v, day FROM sales INTERSECT SELECT v, day FROM returns) x JOIN days d ON x.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day <=> kept returns.day
--> returns.day <=> kept sales.day
--> run once: days for id, name, week, d, k, s
-- below EXCEPT
SELECT x.v FROM (SELECT v, day FROM sales EXCEPT SELECT v, day FROM returns) x JOIN days d ON x.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales: NOT IN and NOT EXISTS keep the rows that have no match.
--> returns.day <=> kept sales.day
--> run once: days for id, name, week, d, k, s
-- below EXCEPT ALL
SELECT x.v FROM (SELECT v, day FROM sales EXCEPT ALL SELECT v, day FROM returns) x JOIN days d ON x.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- below INTERSECT ALL
SELECT x.v FROM (SELECT v, day FROM sales INTERSECT ALL SELECT v, day FROM returns) x JOIN days d ON x.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- below DISTINCT
SELECT x.day FROM (SELECT DISTINCT day, v FROM sales) x JOIN days d ON x.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below DISTINCT of the key alone
SELECT x.day FROM (SELECT DISTINCT day FROM sales) x JOIN days d ON x.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below an aggregate grouped by the key
SELECT a.day, a.c FROM (SELECT day, count(*) AS c FROM sales GROUP BY day) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below an aggregate grouped by a renamed key
SELECT a.g, a.c FROM (SELECT day AS g, count(*) AS c FROM sales GROUP BY day) a JOIN days d ON a.g = d.id WHERE d.week = 1;
--> g of sales = days.id
--> run once: days for id, name, week, d, k, s
-- below an aggregate grouped by a computed key
SELECT a.g, a.c FROM (SELECT day + 1 AS g, count(*) AS c FROM sales GROUP BY day + 1) a JOIN days d ON a.g = d.id WHERE d.week = 1;
--> g of sales = days.id
--> run once: days for id, name, week, d, k, s
-- below an aggregate by another column
SELECT a.m FROM (SELECT store, max(day) AS m FROM sales GROUP BY store) a JOIN days d ON a.m = d.id WHERE d.week = 1;
--> sales: keys are not applied below an aggregate that is not grouped by the key, which is above this table.
-- below an aggregate of everything
SELECT a.m FROM (SELECT max(day) AS m FROM sales) a JOIN days d ON a.m = d.id WHERE d.week = 1;
--> sales: keys are not applied below an aggregate that is not grouped by the key, which is above this table.
-- below GROUPING SETS
SELECT a.day FROM (SELECT day, store, count(*) AS c FROM sales GROUP BY day, store GROUPING SETS ((day, store), (store))) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below ROLLUP, CUBE, GROUPING SETS, UNPIVOT or several DISTINCT aggregates, which is above this table.
-- below ROLLUP
SELECT a.day FROM (SELECT day, count(*) AS c FROM sales GROUP BY ROLLUP (day)) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below ROLLUP, CUBE, GROUPING SETS, UNPIVOT or several DISTINCT aggregates, which is above this table.
-- below HAVING
SELECT a.day FROM (SELECT day, count(*) AS c FROM sales GROUP BY day HAVING count(*) > 3) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below a window partitioned by the key
SELECT a.day, a.r FROM (SELECT day, rank() OVER (PARTITION BY day ORDER BY v) AS r FROM sales) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below a window partitioned by the key and more
SELECT a.day, a.r FROM (SELECT day, rank() OVER (PARTITION BY store, day ORDER BY v) AS r FROM sales) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below a window over all
SELECT a.r FROM (SELECT day, rank() OVER (ORDER BY v, day) AS r FROM sales) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below a window that is not partitioned by the key, which is above this table.
-- below a window partitioned by another column
SELECT a.r FROM (SELECT day, rank() OVER (PARTITION BY store ORDER BY v) AS r FROM sales) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below a window that is not partitioned by the key, which is above this table.
-- below two windows
SELECT a.r, a.t FROM (SELECT day, rank() OVER (PARTITION BY day ORDER BY v) AS r, sum(v) OVER (PARTITION BY store) AS t FROM sales) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below a window that is not partitioned by the key, which is above this table.
-- window above the join
SELECT f.v, rank() OVER (ORDER BY f.v) AS r FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below LIMIT
SELECT a.v FROM (SELECT * FROM sales LIMIT 100) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below LIMIT, which is above this table.
-- below ORDER BY and LIMIT
SELECT a.v FROM (SELECT * FROM sales ORDER BY v, day LIMIT 100) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below LIMIT, which is above this table.
-- below OFFSET
SELECT a.v FROM (SELECT * FROM sales ORDER BY v OFFSET 5) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below OFFSET, which is above this table.
-- LIMIT above the join
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1 ORDER BY f.v LIMIT 10;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- dimension with a LIMIT
SELECT f.v FROM sales f JOIN (SELECT id FROM days LIMIT 3) d ON f.day = d.id;
--> sales.day = days.id
-- dimension with an order and a LIMIT
SELECT f.v FROM sales f JOIN (SELECT id FROM days ORDER BY name LIMIT 3) d ON f.day = d.id;
--> sales.day = days.id
-- dimension that is aggregated
SELECT f.v FROM sales f JOIN (SELECT max(id) AS id FROM days GROUP BY week) d ON f.day = d.id;
--> sales: the dimension has no condition that drops rows.
-- dimension that is aggregated and filtered
SELECT f.v FROM sales f JOIN (SELECT max(id) AS id FROM days WHERE name = 'n3' GROUP BY week) d ON f.day = d.id;
--> sales.day = id
-- dimension with HAVING
SELECT f.v FROM sales f JOIN (SELECT id FROM days GROUP BY id HAVING count(*) > 1) d ON f.day = d.id;
--> sales.day = days.id
-- dimension with a window
SELECT f.v FROM sales f JOIN (SELECT id, row_number() OVER (PARTITION BY week ORDER BY id) AS r FROM days) d ON f.day = d.id WHERE d.r = 1;
--> sales.day = days.id
-- dimension with DISTINCT
SELECT f.v FROM sales f JOIN (SELECT DISTINCT id FROM days WHERE week = 1) d ON f.day = d.id;
--> sales.day = days.id
-- sampled fact
SELECT f.v FROM (SELECT * FROM sales TABLESAMPLE (10 PERCENT)) f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below TABLESAMPLE or sample(), which is above this table.
-- sampled dimension
SELECT f.v FROM sales f JOIN (SELECT * FROM days TABLESAMPLE (10 PERCENT)) d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
-- exploded fact whose key is exploded as well
SELECT f.e FROM (SELECT v, explode(array(day, day + 1)) AS e FROM sales) f JOIN days d ON f.e = d.id WHERE d.week = 1;
--> sales: keys are not applied below a generator such as explode(), which is above this table.
-- below GROUPING SETS that all have the key
SELECT a.day FROM (SELECT day, store, count(*) AS c FROM sales GROUP BY day, store GROUPING SETS ((day, store), (day))) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> day of sales = days.id
--> run once: days for id, name, week, d, k, s
-- below GROUPING SETS, by a key computed above
SELECT a.day FROM (SELECT day, store, count(*) AS c FROM sales GROUP BY day, store GROUPING SETS ((day, store), (day))) a JOIN days d ON a.day + 1 = d.id WHERE d.week = 1;
--> (day + 1) of sales = days.id
--> run once: days for id, name, week, d, k, s
-- below several DISTINCT aggregates
SELECT a.day FROM (SELECT day, count(DISTINCT v) AS c, count(DISTINCT store) AS s FROM sales GROUP BY day) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- below a window partitioned by the key under another name
SELECT a.key, a.t FROM (SELECT key, sum(v) OVER (PARTITION BY key) AS t FROM (SELECT day AS key, v FROM sales)) a JOIN days d ON a.key = d.id WHERE d.week = 1;
--> key of sales = days.id
--> run once: days for id, name, week, d, k, s
-- below a window partitioned by what is computed of the key
SELECT a.day, a.t FROM (SELECT day, sum(v) OVER (PARTITION BY day % 3) AS t FROM sales) a JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales: keys are not applied below a window that is not partitioned by the key, which is above this table.
-- below a window partitioned by a computed key
SELECT a.key, a.t FROM (SELECT day + 1 AS key, sum(v) OVER (PARTITION BY day + 1) AS t FROM sales) a JOIN days d ON a.key = d.id WHERE d.week = 1;
--> sales: keys are not applied below a window that is not partitioned by the key, which is above this table.
-- LIMIT below the value of a subquery
SELECT a.v FROM (SELECT * FROM sales LIMIT 100) a WHERE a.day = (SELECT max(id) FROM days WHERE week = 1);
--> sales: keys are not applied below LIMIT, which is above this table.
-- exploded fact
SELECT f.e FROM (SELECT day, explode(array(v, store)) AS e FROM sales) f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- unpivoted fact
SELECT u.day FROM (SELECT day, v, item FROM sales) UNPIVOT (x FOR what IN (v, item)) u JOIN days d ON u.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- common table expression used twice
WITH d AS (SELECT * FROM days WHERE week = 1), f AS (SELECT v, day FROM sales) SELECT f.v FROM f JOIN d ON f.day = d.id UNION ALL SELECT f.v + 1 FROM f JOIN d ON f.day = d.id WHERE d.name = 'n1';
--> sales.day = days.id
--> sales2.day = days2.id
--> run once: days for id, week
--> run once: days2 for id, name, week
--> share a broadcast: sales, sales2
-- common table expression of the joined fact
WITH x AS (SELECT f.v, f.day, d.name FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1) SELECT a.v, b.v FROM x a JOIN x b ON a.day = b.day;
--> sales.day = days.id
--> sales.day = days2.id
--> sales.day = kept sales2.day
--> sales2.day = days2.id
--> sales2.day = days.id
--> sales2.day = kept sales.day
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
--> share a broadcast: sales, sales2
-- fact that depends on chance
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1 AND rand() < f.v;
--> sales: the query calls functions that are not deterministic.
-- dimension that depends on chance
SELECT f.v FROM sales f JOIN (SELECT id FROM days WHERE rand() < 0.3) d ON f.day = d.id;
--> sales: the query calls functions that are not deterministic.
-- current date on the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.d < current_date() AND d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- join pushed below a union
SELECT t.v, s.region FROM (SELECT v, store, day FROM sales UNION ALL SELECT v, store, day FROM returns) t JOIN stores s ON t.store = s.id JOIN days d ON t.day = d.id WHERE d.week = 2 AND s.region = 'EU';
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- ROW_NUMBER is one
SELECT x.v FROM (SELECT v, day, row_number() OVER (PARTITION BY day ORDER BY v) AS r FROM sales) x JOIN days d ON x.day = d.id WHERE x.r = 1 AND d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
