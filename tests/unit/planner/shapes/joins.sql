-- inner join
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.name = 'n3';
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- inner join, the dimension first
SELECT f.v FROM days d JOIN sales f ON d.id = f.day WHERE d.name = 'n3';
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- join with USING
SELECT v FROM sales JOIN (SELECT id AS day FROM days WHERE week = 2) d USING (day);
--> sales.day = day
--> run once: days for id, name, week, d, k, s
-- natural join
SELECT v FROM sales NATURAL JOIN (SELECT id AS day FROM days WHERE week = 2) d;
--> sales.day = day
--> run once: days for id, name, week, d, k, s
-- comma join
SELECT f.v FROM sales f, days d WHERE f.day = d.id AND d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- cross join with a condition above
SELECT f.v FROM sales f CROSS JOIN days d WHERE f.day = d.id AND d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- cross join without a condition
SELECT f.v, d.id FROM sales f CROSS JOIN days d WHERE d.week = 2;
-- join that compares no partition column
SELECT f.v FROM sales f JOIN stores s ON f.store = s.id WHERE s.region = 'EU';
-- no join
SELECT v FROM sales WHERE day = 3;
--> sales only where (sales.day = 3)
-- no condition on the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id;
--> sales: the dimension has no condition that drops rows.
-- only a condition that is not null on the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.name IS NOT NULL;
--> sales: the dimension has no condition that drops rows.
-- condition on the key itself
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.id > 3;
--> sales.day = days.id
--> sales only where (sales.day > 3)
--> run once: days for id, name, week, d, k, s
-- condition on the partition column reaches the dimension
SELECT f.v, d.name FROM sales f JOIN days d ON f.day = d.id WHERE f.day > 3;
--> sales.day = days.id
--> sales only where (sales.day > 3)
--> run once: days for id, name, week, d, k, s
-- condition in ON
SELECT f.v FROM sales f JOIN days d ON f.day = d.id AND d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- condition on both sides at once
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE f.v > d.week;
--> sales: the dimension has no condition that drops rows.
-- OR of two dimension columns
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 2 OR d.name = 'n3';
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- OR around the comparison
SELECT f.v FROM sales f JOIN days d ON (f.day = d.id OR f.v = d.id) AND d.week = 1;
--> sales: OR is not a supported join condition.
-- inequality of the key
SELECT f.v FROM sales f JOIN days d ON f.day <> d.id WHERE d.week = 1;
--> sales: NOT is not a supported join condition.
-- function of both sides
SELECT f.v FROM sales f JOIN days d ON f.day + d.id = 10 WHERE d.week = 1;
--> sales: a join condition combines the partition columns with other columns.
-- two dimensions of one fact
SELECT f.v FROM sales f JOIN days d ON f.day = d.id AND d.week IN (1, 2) JOIN days e ON f.day = e.id AND e.name < 'n2';
--> sales.day = days.id
--> sales.day = days2.id
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
-- two dimensions, one of another column
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN stores s ON f.store = s.id WHERE d.week = 2 AND s.region = 'EU';
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- three dimensions in another order
SELECT f.v FROM stores s JOIN sales f ON f.store = s.id JOIN items i ON f.item = i.id JOIN days d ON d.id = f.day WHERE d.week = 2 AND i.brand = 'b';
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- two keys at once
SELECT f.v FROM visits f JOIN days d ON f.d = d.d AND f.k = d.k WHERE d.week = 1;
--> visits.d = days.d and visits.k = days.k
--> run once: days for id, name, week, d, k, s
-- one key of two
SELECT f.v FROM visits f JOIN days d ON f.k = d.k WHERE d.week = 1;
--> visits.k = days.k
--> run once: days for id, name, week, d, k, s
-- key and another column
SELECT f.v FROM sales f JOIN days d ON f.day = d.id AND f.v = d.week WHERE d.name = 'n3';
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- key compared twice
SELECT f.v FROM sales f JOIN days d ON f.day = d.id AND f.day = d.week WHERE d.name = 'n3';
--> sales.day = days.id and sales.day = days.week
--> run once: days for id, name, week, d, k, s
-- Hive text table
SELECT f.v FROM logs f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> logs.day = days.id
--> run once: days for id, name, week, d, k, s
-- Hive text dimension
SELECT f.v FROM sales f JOIN legacy d ON f.day = d.id WHERE d.name = 'n3';
--> sales.day = legacy.id
--> run once: legacy for id, name
-- view
SELECT v FROM tagged JOIN days ON tag = id WHERE week = 1;
--> tag of sales = days.id
--> run once: days for id, name, week, d, k, s
-- broadcast hint on the fact
SELECT /*+ BROADCAST(f) */ f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- merge hint
SELECT /*+ MERGE(f, d) */ f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- repartitioned fact
SELECT f.v FROM (SELECT /*+ REPARTITION(3, v) */ * FROM sales) f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- rebalanced fact
SELECT f.v FROM (SELECT /*+ REBALANCE(v) */ * FROM sales) f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- sorted fact
SELECT f.v FROM (SELECT * FROM sales SORT BY v) f JOIN days d ON f.day = d.id WHERE d.week = 1;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- range: less than
SELECT f.v FROM sales f JOIN days d ON f.day < d.id WHERE d.name = 'n3';
--> sales.day < days.id
--> run once: days for id, name, week, d, k, s
-- range: at most
SELECT f.v FROM sales f JOIN days d ON f.day <= d.id WHERE d.name = 'n3';
--> sales.day <= days.id
--> run once: days for id, name, week, d, k, s
-- range: greater than, the dimension first
SELECT f.v FROM days d JOIN sales f ON d.id < f.day WHERE d.name = 'n3';
--> sales.day > days.id
--> run once: days for id, name, week, d, k, s
-- range: between
SELECT f.v FROM sales f JOIN days d ON f.day BETWEEN d.id - 1 AND d.id + 1 WHERE d.name = 'n5';
--> sales.day >= (days.id - 1) and sales.day <= (days.id + 1)
--> run once: days for id, name, week, d, k, s
-- range and equality
SELECT f.v FROM visits f JOIN days d ON f.d > d.d AND f.k = d.k WHERE d.week = 1;
--> visits.d > days.d
--> visits.k = days.k
--> run once: days for id, name, week, d, k, s
-- range of two facts
SELECT a.v FROM sales a JOIN returns b ON a.day > b.day JOIN days d ON b.day = d.id WHERE d.week = 1;
--> sales.day > returns.day <- days (returns.day = days.id)
--> returns.day = days.id
--> returns.day < kept sales.day
--> run once: days for id, name, week, d, k, s
-- null-safe equality
SELECT f.v FROM sales f JOIN days d ON f.day <=> d.id WHERE d.week IN (99, 3);
--> sales.day <=> days.id
--> run once: days for id, name, week, d, k, s
-- null-safe and plain equality
SELECT f.v FROM visits f JOIN days d ON f.d <=> d.d AND f.k = d.k WHERE d.week = 1;
--> visits.d <=> days.d and visits.k = days.k
--> run once: days for id, name, week, d, k, s
-- nested columns of the dimension
SELECT f.v FROM sales f JOIN days d ON f.day = d.s.a WHERE d.s.b = 2;
--> sales.day = _extract_a
--> run once: days for id, name, week, d, k, s
-- dimension of values
SELECT f.v FROM sales f JOIN VALUES (1), (2) AS d(id) ON f.day = d.id;
--> sales.day = LocalRelation.id
-- dimension of a range function
SELECT f.v FROM sales f JOIN range(3) r ON f.day = r.id;
--> sales.day = Range.id
-- dimension of one row
SELECT f.v FROM sales f JOIN (SELECT 3 AS id) d ON f.day = d.id;
--> sales only where (sales.day = 3)
-- dimension with a generator
SELECT f.v FROM sales f JOIN (SELECT explode(array(1, 2)) AS id) d ON f.day = d.id;
--> sales.day = id
-- dimension with an exploded column
SELECT f.v FROM sales f JOIN (SELECT explode(sequence(id, week)) AS e FROM days WHERE name = 'n3') d ON f.day = d.e;
--> sales.day = e
-- huge dimension
SELECT f.v FROM sales f JOIN huge d ON f.day = d.id WHERE d.name = 'n3';
--> sales: the dimension reads 976.6 GiB, more than planner_dimension_bytes (1.0 GiB).
-- dimension of unknown size
SELECT f.v FROM sales f JOIN unknown d ON f.day = d.id WHERE d.name = 'n3';
--> sales: the dimension reads a table of unknown size.
-- dimension that is not run once
SELECT f.v FROM sales f JOIN middling d ON f.day = d.id WHERE d.name = 'n3';
--> sales.day = middling.id
-- nothing can match
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week = 1 AND 1 = 0;
--> unread: sales
-- condition that is always true
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE 1 = 1;
--> sales: the dimension has no condition that drops rows.
-- dimension joined with itself
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN days e ON d.week = e.id WHERE e.name = 'n3';
--> sales.day = days.id <- days2 (days.week = days2.id)
--> run once: days for id, name, week, d, k, s
--> run once: days2 for id, name, week, d, k, s
-- lateral join
SELECT f.v, x.m FROM sales f JOIN days d ON f.day = d.id, LATERAL (SELECT max(r.v) AS m FROM returns r WHERE r.store = f.store) x WHERE d.week = 1;
--> sales.day = days.id
--> sales2: the dimension has no condition that drops rows.
--> share a broadcast: sales, sales2
-- lateral join on the partition column
SELECT d.name, x.m FROM days d, LATERAL (SELECT max(f.v) AS m FROM sales f WHERE f.day = d.id) x WHERE d.week = 1;
