-- q3: a month of sales by brand
SELECT d.week, i.brand, sum(f.v) AS s FROM days d, sales f, items i WHERE d.id = f.day AND f.item = i.id AND i.brand LIKE 'b%' AND d.name = 'n11' GROUP BY d.week, i.brand ORDER BY d.week, s DESC LIMIT 100;
--> sales.day = days.id
--> run once: days for id, name, week
-- q1: returns above the average of their store
WITH r AS (SELECT store, sum(v) AS total FROM returns, days WHERE day = id AND week = 3 GROUP BY store) SELECT s.region FROM r a, stores s WHERE a.total > (SELECT avg(total) * 1.2 FROM r b WHERE a.store = b.store) AND s.id = a.store AND s.region = 'TN';
--> returns.day = days.id
--> returns2.day = days2.id
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, week
--> share a broadcast: returns, returns2
-- q14: items sold through all channels
WITH x AS (SELECT f.item FROM sales f, days d WHERE f.day = d.id AND d.week = 1 INTERSECT SELECT r.item FROM returns r, days d WHERE r.day = d.id AND d.week = 1) SELECT sum(f.v) FROM sales f, days d WHERE f.item IN (SELECT item FROM x) AND f.day = d.id AND d.name = 'n11';
--> sales.day = days3.id
--> sales2.day = days2.id
--> returns.day = days.id
--> run once: days3 for id, name, week, d, k, s
--> run once: days2 for id, week
--> run once: days for id, week
-- q17: sold, returned, sold again
SELECT i.brand, count(*) FROM sales a, returns r, sales c, days d1, days d2, days d3, items i WHERE d1.week = 1 AND d1.id = a.day AND i.id = a.item AND a.item = r.item AND r.day = d2.id AND d2.week IN (1, 2) AND r.item = c.item AND c.day = d3.id AND d3.week IN (1, 2, 3) GROUP BY i.brand;
--> sales.day = days.id
--> returns.day = days2.id
--> sales2.day = days3.id
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
--> run once: days3 for id, name, week, d, k, s
-- q5: union of channels
SELECT channel, sum(v) FROM (SELECT 'sale' AS channel, day, v FROM sales UNION ALL SELECT 'return', day, -v FROM returns) x, days d WHERE x.day = d.id AND d.d BETWEEN DATE'2020-01-01' AND DATE'2020-01-14' GROUP BY ROLLUP (channel);
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
-- q10: customers with a sale and some other one
SELECT count(*) FROM stores st WHERE EXISTS (SELECT * FROM sales f, days d WHERE f.store = st.id AND f.day = d.id AND d.week = 2) AND (EXISTS (SELECT * FROM returns r, days d WHERE r.store = st.id AND r.day = d.id AND d.week = 2) OR EXISTS (SELECT * FROM logs l, days d WHERE l.v = st.id AND l.day = d.id AND d.week = 2));
--> sales.day = days.id
--> returns.day = days2.id
--> logs.day = days3.id
--> run once: days for id, week
--> run once: days2 for id, week
--> run once: days3 for id, week
--> share a broadcast: logs, returns, sales
-- q16: no return of what was sold
SELECT count(DISTINCT f.item) FROM sales f, days d, stores s WHERE f.day = d.id AND d.week = 2 AND f.store = s.id AND s.region = 'GA' AND NOT EXISTS (SELECT * FROM returns r WHERE f.item = r.item);
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- q23: frequent items and the best stores
WITH frequent AS (SELECT f.item, d.d, count(*) AS c FROM sales f, days d WHERE f.day = d.id AND d.week IN (1, 2) GROUP BY f.item, d.d HAVING count(*) > 4), best AS (SELECT store FROM sales GROUP BY store HAVING sum(v) > 0.5 * (SELECT max(t) FROM (SELECT sum(f.v) AS t FROM sales f, days d WHERE f.day = d.id AND d.week < 4 GROUP BY f.store))) SELECT sum(r.v) FROM returns r, days d WHERE r.day = d.id AND d.name = 'n2' AND r.item IN (SELECT item FROM frequent) AND r.store IN (SELECT store FROM best);
--> returns.day = days3.id
--> sales.day = days.id
--> sales3.day = days2.id
--> run once: days3 for id, name, week, d, k, s
--> run once: days for id, week, d
--> run once: days2 for id, week
--> share a broadcast: sales, sales3
-- q32: discounts above the average of the item
SELECT sum(f.v) FROM sales f, items i, days d WHERE i.brand = 'b' AND i.id = f.item AND d.week = 2 AND d.id = f.day AND f.v > (SELECT 1.3 * avg(g.v) FROM sales g, days e WHERE g.item = i.id AND e.week = 2 AND e.id = g.day);
--> sales.day = days2.id
--> sales2.day = days.id
--> run once: days2 for id, name, week, d, k, s
--> run once: days for id, week
-- q38: stores that did all of it
SELECT count(*) FROM (SELECT DISTINCT f.store, d.d FROM sales f, days d WHERE f.day = d.id AND d.week = 2 INTERSECT SELECT DISTINCT r.store, d.d FROM returns r, days d WHERE r.day = d.id AND d.week = 2) x;
--> sales.day = days.id
--> returns.day = days2.id
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
--> share a broadcast: returns, sales
-- q51: running totals of two channels
SELECT * FROM (SELECT coalesce(a.item, b.item) AS item, a.c AS x, b.c AS y FROM (SELECT f.item, d.d, sum(f.v) OVER (PARTITION BY f.item ORDER BY d.d) AS c FROM sales f, days d WHERE f.day = d.id AND d.week = 2) a FULL OUTER JOIN (SELECT r.item, d.d, sum(r.v) OVER (PARTITION BY r.item ORDER BY d.d) AS c FROM returns r, days d WHERE r.day = d.id AND d.week = 2) b ON a.item = b.item AND a.d = b.d) z WHERE x > y;
--> sales.day = days.id
--> returns.day = days2.id
--> run once: days for id, week, d
--> run once: days2 for id, week, d
--> share a broadcast: returns, sales
-- q54: weeks by a scalar subquery
SELECT count(*) FROM sales f, days d WHERE f.day = d.id AND d.week BETWEEN (SELECT DISTINCT week + 1 FROM days WHERE name = 'n9') AND (SELECT DISTINCT week + 3 FROM days WHERE name = 'n9');
--> sales.day = days.id
--> run first once: days2 for name, week
--> run first once: days3 for name, week
--> run once: days for id, name, week, d, k, s
-- q58: the same week as a day
SELECT f.item, sum(f.v) FROM sales f, days d WHERE f.day = d.id AND d.d IN (SELECT d FROM days WHERE week = (SELECT week FROM days WHERE d = DATE'2020-01-03')) GROUP BY f.item;
--> sales.day = days.id <- days2 + days3 (days.d = days2.d)
--> run first once: days for id, name, week, d, k, s
--> run first once: days3 for week, d
--> run once: days2 for week, d
-- q59: a year and the next
WITH w AS (SELECT d.week, f.store, sum(f.v) AS t FROM sales f, days d WHERE d.id = f.day GROUP BY d.week, f.store) SELECT a.store, a.t / b.t FROM w a, w b, weeks x, weeks y WHERE a.week = x.week AND x.no BETWEEN 1 AND 12 AND b.week = y.week AND y.no BETWEEN 13 AND 24 AND a.store = b.store AND x.week = y.week - 52;
--> sales: the dimension has no condition that drops rows.
--> sales2: the dimension has no condition that drops rows.
--> share a broadcast: sales, sales2
-- q78: sold and not returned
SELECT x.day, sum(x.q) FROM (SELECT f.day, sum(f.v) AS q FROM sales f LEFT JOIN returns r ON r.item = f.item AND r.day = f.day JOIN days d ON f.day = d.id WHERE r.item IS NULL GROUP BY f.day) x JOIN days e ON x.day = e.id WHERE e.week = 2 GROUP BY x.day;
--> sales.day = days2.id
--> sales: LEFT OUTER JOIN keeps every row of this table, its left side.
--> sales: the dimension has no condition that drops rows.
--> returns.day = kept sales.day
--> returns: the dimension has no condition that drops rows.
--> run once: days2 for id, name, week, d, k, s
-- q93: sold less what was returned
SELECT f.store, sum(f.v - coalesce(r.v, 0)) FROM sales f LEFT OUTER JOIN returns r ON r.item = f.item AND r.store = f.store, stores s WHERE r.day = s.opened AND s.region = 'x' GROUP BY f.store;
--> returns.day = stores.opened
--> run once: stores for id, region, opened
-- q97: overlap of channels
WITH a AS (SELECT f.store, f.item FROM sales f, days d WHERE f.day = d.id AND d.week = 2 GROUP BY f.store, f.item), b AS (SELECT r.store, r.item FROM returns r, days d WHERE r.day = d.id AND d.week = 2 GROUP BY r.store, r.item) SELECT count(*) FROM a FULL OUTER JOIN b ON a.store = b.store AND a.item = b.item;
--> sales.day = days.id
--> returns.day = days2.id
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
--> share a broadcast: returns, sales
