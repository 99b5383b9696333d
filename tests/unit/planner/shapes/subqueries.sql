-- IN a subquery
SELECT * FROM sales WHERE day IN (SELECT id FROM days WHERE week = 2);
--> sales.day = days.id
--> run once: days for id, week
-- IN a subquery of values
SELECT * FROM sales WHERE day IN (SELECT id FROM VALUES (1), (2) AS t(id));
--> sales.day = LocalRelation.id
-- IN a subquery without a condition
SELECT * FROM sales WHERE day IN (SELECT id FROM days);
--> sales: the dimension has no condition that drops rows.
-- two columns IN a subquery
SELECT * FROM visits WHERE (d, k) IN (SELECT d, k FROM days WHERE week = 2);
--> visits.d = days.d and visits.k = days.k
--> run once: days for week, d, k
-- IN two subqueries
SELECT * FROM sales WHERE day IN (SELECT id FROM days WHERE week = 2) AND day IN (SELECT opened FROM stores WHERE region = 'EU');
--> sales.day = days.id
--> sales.day = stores.opened
--> run once: days for id, week
--> run once: stores for region, opened
-- IN a subquery, correlated
SELECT * FROM sales f WHERE f.day IN (SELECT d.id FROM days d WHERE d.week = 2 AND d.name = f.v);
--> sales.day = days.id
--> run once: days for id, name, week
-- EXISTS
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d WHERE d.id = f.day AND d.week = 2);
--> sales.day = days.id
--> run once: days for id, week
-- EXISTS with a range
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d WHERE d.id > f.day AND d.week = 2);
--> sales.day < days.id
--> run once: days for id, week
-- EXISTS that is not correlated
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d WHERE d.week = 2);
-- LEFT SEMI JOIN
SELECT * FROM sales f LEFT SEMI JOIN days d ON f.day = d.id AND d.week = 2;
--> sales.day = days.id
--> run once: days for id, week
-- the dimension semi-joined with the fact
SELECT d.name FROM days d LEFT SEMI JOIN sales f ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- NOT IN
SELECT v FROM sales WHERE day NOT IN (SELECT id FROM days WHERE week = 1);
--> sales: NOT IN and NOT EXISTS keep the rows that have no match.
-- NOT EXISTS
SELECT v FROM sales f WHERE NOT EXISTS (SELECT 1 FROM days d WHERE d.id = f.day AND d.week = 1);
--> sales: NOT IN and NOT EXISTS keep the rows that have no match.
-- LEFT ANTI JOIN
SELECT v FROM sales f LEFT ANTI JOIN days d ON f.day = d.id AND d.week = 1;
--> sales: NOT IN and NOT EXISTS keep the rows that have no match.
-- the dimension anti-joined with the fact
SELECT d.name FROM days d LEFT ANTI JOIN sales f ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- anti join beside a join that prunes
SELECT v FROM sales f LEFT ANTI JOIN returns r ON f.item = r.item JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- IN a subquery or something else
SELECT v FROM sales f WHERE f.v = 7 OR f.day IN (SELECT id FROM days WHERE week = 1);
--> sales: IN or EXISTS is only one part of an OR.
-- EXISTS in the list of columns
SELECT v, EXISTS (SELECT 1 FROM days d WHERE d.id = f.day AND d.week = 1) AS e FROM sales f;
--> sales: IN or EXISTS is only one part of an OR.
-- existence join beside a join that prunes
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2 AND (f.v = 7 OR f.store IN (SELECT id FROM stores));
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- scalar subquery on the fact
SELECT v FROM sales WHERE day = (SELECT max(id) FROM days WHERE week = 2);
--> sales.day = ScalarSubquery()
--> run once: days for id, week
-- scalar subquery on the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = (SELECT max(week) FROM weeks WHERE no = 20);
--> sales.day = days.id
--> run first once: weeks for week, no
--> run once: days for id, name, week, d, k, s
-- scalar subqueries between
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week BETWEEN (SELECT max(week) - 1 FROM weeks) AND (SELECT max(week) - 96 FROM days);
--> sales.day = days.id
-- scalar subquery over another fact
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week > (SELECT max(v) FROM returns);
--> sales.day = days.id
-- scalar subquery over the same fact
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2 AND f.v > (SELECT avg(v) FROM sales);
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- scalar subquery in the list of columns
SELECT f.v, (SELECT max(no) FROM weeks) AS m FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- case of scalar subqueries
SELECT f.v, CASE WHEN (SELECT max(no) FROM weeks) > 3 THEN (SELECT max(week) FROM weeks) ELSE 0 END AS c FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- correlated scalar subquery
SELECT f.v, (SELECT max(r.v) FROM returns r WHERE r.day = f.day) AS m FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales: LEFT OUTER JOIN keeps every row of this table, its left side.
--> returns.day = days.id
--> returns.day = kept sales.day
--> run once: days for id, name, week, d, k, s
-- correlated scalar subquery with a range
SELECT f.v, (SELECT max(r.v) FROM returns r WHERE r.v < f.v) AS m FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> sales.day of sales2 = days.id
--> share a broadcast: sales, sales2
-- join in a scalar subquery
SELECT v, (SELECT max(f.v) FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1) AS m FROM returns;
--> sales.day = days.id
--> run once: days for id, week
-- two scalar subqueries of one table
SELECT (SELECT sum(v) FROM sales), (SELECT max(v) FROM sales), r.v FROM returns r JOIN days d ON r.day = d.id WHERE d.week = 2;
--> returns.day = days.id
--> run once: days for id, name, week, d, k, s
--> [4] unread: sales
-- subquery below a subquery
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = (SELECT max(week) FROM weeks WHERE year = (SELECT max(year) FROM years WHERE label = 'y'));
--> sales.day = days.id
--> run first once: years for year, label
--> run first once: weeks for week, year
--> run once: days for id, name, week, d, k, s
-- IN below IN
SELECT * FROM sales WHERE day IN (SELECT id FROM days WHERE week IN (SELECT week FROM weeks WHERE no = 20));
--> sales.day = days.id <- weeks (days.week = weeks.week)
--> run once: days for id, week
--> run once: weeks for week, no
-- IN with a computed key
SELECT * FROM sales WHERE day + 1 IN (SELECT id FROM days WHERE week = 2);
--> (sales.day + 1) of sales = days.id
--> run once: days for id, week
-- IN a fact
SELECT * FROM sales WHERE day IN (SELECT day FROM returns);
--> sales.day = kept returns.day
--> returns.day = kept sales.day
-- IN a filtered fact
SELECT * FROM sales WHERE day IN (SELECT day FROM returns WHERE v > 3);
--> sales.day = returns.day
--> returns.day = kept sales.day
-- IN a pruned fact
SELECT * FROM sales WHERE day IN (SELECT r.day FROM returns r JOIN days d ON r.day = d.id WHERE d.week = 2);
--> sales.day = days.id
--> sales.day = kept returns.day
--> returns.day = days.id
--> returns.day = kept sales.day
--> run once: days for id, week
-- IN with LIMIT
SELECT * FROM sales WHERE day IN (SELECT id FROM days LIMIT 3);
--> sales.day = days.id
-- IN with DISTINCT and ORDER
SELECT * FROM sales WHERE day IN (SELECT DISTINCT id FROM days WHERE week = 2 ORDER BY id);
--> sales.day = days.id
-- EXISTS of two tables
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d JOIN weeks w ON d.week = w.week WHERE d.id = f.day AND w.no = 20);
--> sales.day = days.id <- weeks (days.week = weeks.week)
--> run once: days for id, week
--> run once: weeks for week, no
-- NOT IN of the key, IN of another
SELECT * FROM visits WHERE k NOT IN (SELECT k FROM days WHERE week = 1) AND d IN (SELECT d FROM days WHERE week = 2);
--> visits.d = days2.d
--> visits: NOT IN and NOT EXISTS keep the rows that have no match.
--> run once: days2 for week, d
