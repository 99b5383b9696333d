-- left outer, the fact preserved
SELECT f.v, d.name FROM sales f LEFT JOIN days d ON f.day = d.id AND d.week = 1;
--> sales: LEFT OUTER JOIN keeps every row of this table, its left side.
-- left outer, the dimension preserved
SELECT f.v, d.name FROM (SELECT * FROM days WHERE week = 2) d LEFT JOIN sales f ON f.day = d.id;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- right outer, the dimension preserved
SELECT f.v, d.name FROM sales f RIGHT JOIN (SELECT * FROM days WHERE week = 2) d ON f.day = d.id;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- right outer, the fact preserved
SELECT f.v, d.name FROM (SELECT * FROM days WHERE week = 2) d RIGHT JOIN sales f ON f.day = d.id;
--> sales: RIGHT OUTER JOIN keeps every row of this table, its right side.
-- full outer
SELECT f.v, d.name FROM sales f FULL JOIN (SELECT * FROM days WHERE week = 1) d ON f.day = d.id;
--> sales: FULL OUTER JOIN keeps every row of both sides.
-- full outer of a fact and its filtered self
SELECT f.v, g.v FROM sales f FULL JOIN returns g ON f.day = g.day AND f.v = g.v;
--> sales: FULL OUTER JOIN keeps every row of both sides.
--> returns: FULL OUTER JOIN keeps every row of both sides.
-- left outer that a condition above makes an inner join
SELECT f.v FROM sales f LEFT JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- left outer whose condition keeps nulls
SELECT f.v FROM sales f LEFT JOIN days d ON f.day = d.id WHERE d.week = 2 OR d.week IS NULL;
--> sales: LEFT OUTER JOIN keeps every row of this table, its left side.
-- full outer that a condition above makes a left outer
SELECT f.v, d.name FROM sales f FULL JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- left outer, the range preserved
SELECT f.v, d.name FROM (SELECT * FROM days WHERE week = 2) d LEFT JOIN sales f ON f.day < d.id;
--> sales.day < days.id
--> run once: days for id, name, week, d, k, s
-- left outer, null-safe
SELECT f.v, d.name FROM (SELECT * FROM days WHERE week = 2) d LEFT JOIN sales f ON f.day <=> d.id;
--> sales.day <=> days.id
--> run once: days for id, name, week, d, k, s
-- left outer, a condition on the preserved side in ON
SELECT f.v, d.name FROM days d LEFT JOIN sales f ON f.day = d.id AND d.week = 2;
--> sales: the dimension has no condition that drops rows.
-- inner below left outer
SELECT f.v, s.region FROM sales f JOIN days d ON f.day = d.id LEFT JOIN stores s ON f.store = s.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- left outer below inner
SELECT f.v, s.region FROM sales f LEFT JOIN stores s ON f.store = s.id JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- fact preserved by one join, pruned by another
SELECT f.v, e.name FROM sales f LEFT JOIN days e ON f.day = e.id AND e.week = 1 JOIN days d ON f.day = d.id WHERE d.name = 'n3';
--> sales.day = days2.id
--> sales: LEFT OUTER JOIN keeps every row of this table, its left side.
--> run once: days2 for id, name, week, d, k, s
-- key of the side that is filled with nulls
SELECT f.v FROM sales f JOIN (SELECT s.id, d.week FROM stores s LEFT JOIN days d ON s.opened = d.id AND d.name = 'n3') x ON f.day = x.week;
--> sales.day = days.week
--> run once: days for id, name, week, d, k, s
-- fact on the side that is filled with nulls, joined above
SELECT d.name FROM stores s LEFT JOIN sales f ON f.store = s.id JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- fact on the side that is filled with nulls, null-safe above
SELECT d.name FROM stores s LEFT JOIN sales f ON f.store = s.id JOIN days d ON f.day <=> d.id WHERE d.week = 2;
--> sales: keys are not applied below an outer join, which is above this table.
-- two facts, left outer
SELECT f.v, r.v FROM sales f LEFT JOIN returns r ON f.item = r.item AND f.day = r.day JOIN days d ON f.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> sales: LEFT OUTER JOIN keeps every row of this table, its left side.
--> returns.day = days.id
--> returns.day = kept sales.day
--> run once: days for id, name, week, d, k, s
-- two facts, right outer
SELECT f.v, r.v FROM sales f RIGHT JOIN returns r ON f.item = r.item AND f.day = r.day JOIN days d ON r.day = d.id WHERE d.week = 2;
--> sales.day = days.id
--> sales.day = kept returns.day
--> returns.day = days.id
--> returns: RIGHT OUTER JOIN keeps every row of this table, its right side.
--> run once: days for id, name, week, d, k, s
-- two facts, full outer, the dimension above
SELECT f.v, r.v FROM sales f FULL JOIN returns r ON f.item = r.item AND f.day = r.day JOIN days d ON coalesce(f.day, r.day) = d.id WHERE d.week = 2;
--> sales: keys are not applied below an outer join, which is above this table.
--> sales: FULL OUTER JOIN keeps every row of both sides.
--> returns: keys are not applied below an outer join, which is above this table.
--> returns: FULL OUTER JOIN keeps every row of both sides.
-- full outer below an aggregate
SELECT x.day, count(*) FROM (SELECT f.day FROM sales f FULL JOIN days d ON f.day = d.id AND d.week = 1) x GROUP BY x.day;
--> sales: FULL OUTER JOIN keeps every row of both sides.
-- left outer chain
SELECT d.name, f.v, r.v FROM days d LEFT JOIN sales f ON f.day = d.id LEFT JOIN returns r ON r.day = f.day WHERE d.week = 2;
--> sales.day = days.id
--> returns.day = days.id
--> returns.day = kept sales.day
--> run once: days for id, name, week, d, k, s
-- dimension narrowed across a left outer join
SELECT f.v FROM sales f JOIN (SELECT d.id FROM days d LEFT JOIN weeks w ON d.week = w.week AND w.no = 20) x ON f.day = x.id;
--> sales: the dimension has no condition that drops rows.
-- left outer without a condition on the dimension
SELECT f.v, d.name FROM days d LEFT JOIN sales f ON f.day = d.id;
--> sales: the dimension has no condition that drops rows.
-- outer union
SELECT v, name FROM (SELECT * FROM days WHERE week = 1) d LEFT JOIN (SELECT v, day FROM sales UNION ALL SELECT v, day FROM returns) u ON u.day = d.id;
--> sales.day = days.id
--> sales.day of returns = days.id
--> run once: days for id, name, week, d, k, s
