-- IN a subquery
SELECT * FROM sales WHERE day IN (SELECT id FROM days WHERE week = 2);
-- IN a subquery of values
SELECT * FROM sales WHERE day IN (SELECT id FROM VALUES (1), (2) AS t(id));
-- IN a subquery without a condition
SELECT * FROM sales WHERE day IN (SELECT id FROM days);
-- two columns IN a subquery
SELECT * FROM visits WHERE (d, k) IN (SELECT d, k FROM days WHERE week = 2);
-- IN two subqueries
SELECT * FROM sales WHERE day IN (SELECT id FROM days WHERE week = 2) AND day IN (SELECT opened FROM stores WHERE region = 'EU');
-- IN a subquery, correlated
SELECT * FROM sales f WHERE f.day IN (SELECT d.id FROM days d WHERE d.week = 2 AND d.name = f.v);
-- EXISTS
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d WHERE d.id = f.day AND d.week = 2);
-- EXISTS with a range
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d WHERE d.id > f.day AND d.week = 2);
-- EXISTS that is not correlated
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d WHERE d.week = 2);
-- LEFT SEMI JOIN
SELECT * FROM sales f LEFT SEMI JOIN days d ON f.day = d.id AND d.week = 2;
-- the dimension semi-joined with the fact
SELECT d.name FROM days d LEFT SEMI JOIN sales f ON f.day = d.id WHERE d.week = 2;
-- NOT IN
SELECT v FROM sales WHERE day NOT IN (SELECT id FROM days WHERE week = 1);
-- NOT EXISTS
SELECT v FROM sales f WHERE NOT EXISTS (SELECT 1 FROM days d WHERE d.id = f.day AND d.week = 1);
-- LEFT ANTI JOIN
SELECT v FROM sales f LEFT ANTI JOIN days d ON f.day = d.id AND d.week = 1;
-- the dimension anti-joined with the fact
SELECT d.name FROM days d LEFT ANTI JOIN sales f ON f.day = d.id WHERE d.week = 2;
-- anti join beside a join that prunes
SELECT v FROM sales f LEFT ANTI JOIN returns r ON f.item = r.item JOIN days d ON f.day = d.id WHERE d.week = 2;
-- IN a subquery or something else
SELECT v FROM sales f WHERE f.v = 7 OR f.day IN (SELECT id FROM days WHERE week = 1);
-- EXISTS in the list of columns
SELECT v, EXISTS (SELECT 1 FROM days d WHERE d.id = f.day AND d.week = 1) AS e FROM sales f;
-- existence join beside a join that prunes
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2 AND (f.v = 7 OR f.store IN (SELECT id FROM stores));
-- scalar subquery on the fact
SELECT v FROM sales WHERE day = (SELECT max(id) FROM days WHERE week = 2);
-- scalar subquery on the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = (SELECT max(week) FROM weeks WHERE no = 20);
-- scalar subqueries between
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week BETWEEN (SELECT max(week) - 1 FROM weeks) AND (SELECT max(week) - 96 FROM days);
-- scalar subquery over another fact
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week > (SELECT max(v) FROM returns);
-- scalar subquery over the same fact
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2 AND f.v > (SELECT avg(v) FROM sales);
-- scalar subquery in the list of columns
SELECT f.v, (SELECT max(no) FROM weeks) AS m FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2;
-- case of scalar subqueries
SELECT f.v, CASE WHEN (SELECT max(no) FROM weeks) > 3 THEN (SELECT max(week) FROM weeks) ELSE 0 END AS c FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2;
-- correlated scalar subquery
SELECT f.v, (SELECT max(r.v) FROM returns r WHERE r.day = f.day) AS m FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1;
-- correlated scalar subquery with a range
SELECT f.v, (SELECT max(r.v) FROM returns r WHERE r.v < f.v) AS m FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1;
-- join in a scalar subquery
SELECT v, (SELECT max(f.v) FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1) AS m FROM returns;
-- two scalar subqueries of one table
SELECT (SELECT sum(v) FROM sales), (SELECT max(v) FROM sales), r.v FROM returns r JOIN days d ON r.day = d.id WHERE d.week = 2;
-- subquery below a subquery
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = (SELECT max(week) FROM weeks WHERE year = (SELECT max(year) FROM years WHERE label = 'y'));
-- IN below IN
SELECT * FROM sales WHERE day IN (SELECT id FROM days WHERE week IN (SELECT week FROM weeks WHERE no = 20));
-- IN with a computed key
SELECT * FROM sales WHERE day + 1 IN (SELECT id FROM days WHERE week = 2);
-- IN a fact
SELECT * FROM sales WHERE day IN (SELECT day FROM returns);
-- IN a filtered fact
SELECT * FROM sales WHERE day IN (SELECT day FROM returns WHERE v > 3);
-- IN a pruned fact
SELECT * FROM sales WHERE day IN (SELECT r.day FROM returns r JOIN days d ON r.day = d.id WHERE d.week = 2);
-- IN with LIMIT
SELECT * FROM sales WHERE day IN (SELECT id FROM days LIMIT 3);
-- IN with DISTINCT and ORDER
SELECT * FROM sales WHERE day IN (SELECT DISTINCT id FROM days WHERE week = 2 ORDER BY id);
-- EXISTS of two tables
SELECT * FROM sales f WHERE EXISTS (SELECT 1 FROM days d JOIN weeks w ON d.week = w.week WHERE d.id = f.day AND w.no = 20);
-- NOT IN of the key, IN of another
SELECT * FROM visits WHERE k NOT IN (SELECT k FROM days WHERE week = 1) AND d IN (SELECT d FROM days WHERE week = 2);
