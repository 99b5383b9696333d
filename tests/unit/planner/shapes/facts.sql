-- two facts, a dimension each
SELECT count(*) FROM sales f JOIN returns r ON f.item = r.item JOIN days d ON f.day = d.id JOIN days e ON r.day = e.id WHERE d.week = 1 AND e.week = 2;
--> sales.day = days.id
--> returns.day = days2.id
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
-- two facts joined by their keys
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day = kept returns.day
--> returns.day = days.id
--> returns.day = kept sales.day
--> run once: days for id, name, week, d, k, s
-- two facts, one without partitions to prune
SELECT count(*) FROM sales f JOIN returns r ON f.item = r.item JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- two facts without a dimension
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day;
--> sales.day = kept returns.day
--> returns.day = kept sales.day
-- two facts, a condition on one
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day WHERE r.v > 7;
--> sales.day = returns.day
--> returns.day = kept sales.day
-- two facts, a static condition on one
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day WHERE r.day = 7;
--> sales.day = returns.day
--> sales only where (sales.day = 7)
--> returns.day = sales.day
--> returns only where (returns.day = 7)
-- two facts of different types
SELECT count(*) FROM sales f JOIN clicks c ON f.day = c.n JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day = kept clicks.n
--> clicks.n = CAST(sales.day AS long) <- days (sales.day = days.id)
--> run once: days for id, name, week, d, k, s
-- three facts in a chain
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day JOIN logs l ON r.day = l.day JOIN days d ON l.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day = kept returns.day
--> sales.day = kept logs.day
--> returns.day = days.id
--> returns.day = kept sales.day
--> returns.day = kept logs.day
--> logs.day = days.id
--> logs.day = kept returns.day
--> logs.day = kept sales.day
--> run once: days for id, name, week, d, k, s
-- one fact twice with different filters
SELECT a.v, b.v FROM sales a JOIN days d ON a.day = d.id AND d.week = 1 JOIN sales b ON a.store = b.store JOIN days e ON b.day = e.id AND e.name = 'n7';
--> sales.day = days.id
--> sales2.day = days2.id
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
-- one fact twice, one filter
SELECT a.v, b.v FROM sales a JOIN days d ON a.day = d.id AND d.week = 1 JOIN sales b ON a.store = b.store;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- one fact twice, joined by the key
SELECT a.v, b.v FROM sales a JOIN sales b ON a.day = b.day JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day = kept sales2.day
--> sales2.day = days.id
--> sales2.day = kept sales.day
--> run once: days for id, name, week, d, k, s
--> share a broadcast: sales, sales2
-- one fact twice, joined by the next key
SELECT a.v, b.v FROM sales a JOIN sales b ON a.day = b.day + 1 JOIN days d ON a.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day = kept (sales2.day + 1)
--> (sales2.day + 1) of sales2 = days.id
--> (sales2.day + 1) of sales2 = kept sales.day
--> run once: days for id, name, week, d, k, s
--> share a broadcast: sales, sales2
-- key of an aggregated fact
SELECT r.v, f.n FROM returns r JOIN (SELECT day, count(*) AS n FROM sales GROUP BY day) f ON r.day = f.day WHERE f.day IN (SELECT id FROM days WHERE week = 1);
--> returns.day = days.id
--> returns.day = sales.day
--> sales.day = days.id
--> sales.day = kept returns.day
-- key that a fact computes
SELECT f.v FROM sales f JOIN (SELECT max(day) AS day FROM returns) r ON f.day = r.day;
--> sales.day = day
--> returns: keys are not applied below an aggregate that is not grouped by the key, which is above this table.
-- other column of a fact as key
SELECT f.v FROM sales f JOIN returns r ON f.day = r.store WHERE r.v > 7;
--> sales.day = returns.store
-- fact as a dimension of a dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN returns r ON d.week = r.day WHERE r.v = 1;
--> sales.day = days.id <- returns (days.week = returns.day)
--> returns: the dimension has no condition that drops rows.
--> run once: days for id, name, week, d, k, s
-- the last of each day
SELECT f.v FROM sales f JOIN (SELECT day, max(v) AS m FROM sales GROUP BY day) x ON f.day = x.day AND f.v = x.m JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day = kept sales2.day
--> sales2.day = days.id
--> sales2.day = kept sales.day
--> run once: days for id, name, week, d, k, s
