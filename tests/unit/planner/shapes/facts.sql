-- two facts, a dimension each
SELECT count(*) FROM sales f JOIN returns r ON f.item = r.item JOIN days d ON f.day = d.id JOIN days e ON r.day = e.id WHERE d.week = 1 AND e.week = 2;
-- two facts joined by their keys
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day JOIN days d ON f.day = d.id WHERE d.week = 1;
-- two facts, one without partitions to prune
SELECT count(*) FROM sales f JOIN returns r ON f.item = r.item JOIN days d ON f.day = d.id WHERE d.week = 1;
-- two facts without a dimension
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day;
-- two facts, a condition on one
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day WHERE r.v > 7;
-- two facts, a static condition on one
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day WHERE r.day = 7;
-- two facts of different types
SELECT count(*) FROM sales f JOIN clicks c ON f.day = c.n JOIN days d ON f.day = d.id WHERE d.week = 1;
-- three facts in a chain
SELECT count(*) FROM sales f JOIN returns r ON f.day = r.day JOIN logs l ON r.day = l.day JOIN days d ON l.day = d.id WHERE d.week = 1;
-- one fact twice with different filters
SELECT a.v, b.v FROM sales a JOIN days d ON a.day = d.id AND d.week = 1 JOIN sales b ON a.store = b.store JOIN days e ON b.day = e.id AND e.name = 'n7';
-- one fact twice, one filter
SELECT a.v, b.v FROM sales a JOIN days d ON a.day = d.id AND d.week = 1 JOIN sales b ON a.store = b.store;
-- one fact twice, joined by the key
SELECT a.v, b.v FROM sales a JOIN sales b ON a.day = b.day JOIN days d ON a.day = d.id WHERE d.week = 1;
-- one fact twice, joined by the next key
SELECT a.v, b.v FROM sales a JOIN sales b ON a.day = b.day + 1 JOIN days d ON a.day = d.id WHERE d.week = 1;
-- key of an aggregated fact
SELECT r.v, f.n FROM returns r JOIN (SELECT day, count(*) AS n FROM sales GROUP BY day) f ON r.day = f.day WHERE f.day IN (SELECT id FROM days WHERE week = 1);
-- key that a fact computes
SELECT f.v FROM sales f JOIN (SELECT max(day) AS day FROM returns) r ON f.day = r.day;
-- other column of a fact as key
SELECT f.v FROM sales f JOIN returns r ON f.day = r.store WHERE r.v > 7;
-- fact as a dimension of a dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN returns r ON d.week = r.day WHERE r.v = 1;
-- the last of each day
SELECT f.v FROM sales f JOIN (SELECT day, max(v) AS m FROM sales GROUP BY day) x ON f.day = x.day AND f.v = x.m JOIN days d ON f.day = d.id WHERE d.week = 1;
