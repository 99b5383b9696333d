-- snowflake
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN weeks w ON d.week = w.week WHERE w.no = 20;
--> sales.day = days.id <- weeks (days.week = weeks.week)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no, year
-- snowflake of three
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN weeks w ON d.week = w.week JOIN years y ON w.year = y.year WHERE y.label = 'y';
--> sales.day = days.id <- weeks (days.week = weeks.week) <- years (weeks.year = years.year)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no, year
--> run once: years for year, label
-- snowflake with a condition on each
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN weeks w ON d.week = w.week WHERE w.no = 20 AND d.name < 'n2';
--> sales.day = days.id <- weeks (days.week = weeks.week)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no, year
-- snowflake without a condition beyond
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN weeks w ON d.week = w.week WHERE d.name < 'n2';
--> sales.day = days.id
--> run once: days for id, name, week, d, k, s
-- snowflake through a subquery
SELECT f.v FROM sales f JOIN (SELECT d.id FROM days d JOIN weeks w ON d.week = w.week WHERE w.no = 20) x ON f.day = x.id;
--> sales.day = days.id <- weeks (days.week = weeks.week)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no, year
-- snowflake through an aggregate
SELECT f.v FROM sales f JOIN (SELECT d.id, count(*) AS c FROM days d JOIN weeks w ON d.week = w.week WHERE w.no = 20 GROUP BY d.id) x ON f.day = x.id;
--> sales.day = days.id
-- snowflake by a range
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN weeks w ON d.week < w.week WHERE w.no = 20;
--> sales.day = days.id <- weeks (days.week < weeks.week)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no, year
-- snowflake, null-safe
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN weeks w ON d.week <=> w.week WHERE w.no = 20;
--> sales.day = days.id <- weeks (days.week <=> weeks.week)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no, year
-- snowflake through IN
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week IN (SELECT week FROM weeks WHERE no = 20);
--> sales.day = days.id <- weeks (days.week = weeks.week)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no
-- snowflake through NOT IN
SELECT f.v FROM sales f JOIN days d ON f.day = d.id WHERE d.week NOT IN (SELECT week FROM weeks WHERE no = 20);
--> sales: the dimension has no condition that drops rows.
-- snowflake through a left join that keeps the dimension
SELECT f.v, w.no FROM sales f JOIN days d ON f.day = d.id LEFT JOIN weeks w ON d.week = w.week AND w.no = 20;
--> sales: the dimension has no condition that drops rows.
-- snowflake through a huge table
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN huge h ON d.week = h.id WHERE h.name = 'n3';
--> sales: the dimension has no condition that drops rows.
-- snowflake beyond a huge table
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN huge h ON d.week = h.id JOIN years y ON h.name = y.label WHERE y.year = 3;
--> sales: the dimension has no condition that drops rows.
-- two dimensions with a common one
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN stores s ON f.store = s.id JOIN weeks w ON d.week = w.week AND s.opened = w.week WHERE w.no = 20;
--> sales.day = days.id <- weeks (days.week = weeks.week)
--> run once: days for id, name, week, d, k, s
--> run once: weeks for week, no, year
-- ring of dimensions
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN weeks w ON d.week = w.week JOIN years y ON w.year = y.year AND y.label = d.name WHERE y.label > 'a';
--> sales.day = days.id <- years (years.label = days.name)
--> run once: days for id, name, week, d, k, s
--> run once: years for year, label
-- dimensions with the same key
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN stores s ON d.id = s.id WHERE s.region = 'EU';
--> sales.day = stores.id
--> sales: the dimension has no condition that drops rows.
--> run once: stores for id, region, opened
-- dimensions with the same key and another column
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN stores s ON d.id = s.id AND d.week = s.opened WHERE s.region = 'EU';
--> sales.day = days.id <- stores (days.week = stores.opened)
--> sales.day = stores.id
--> run once: days for id, name, week, d, k, s
--> run once: stores for id, region, opened
-- dimension of one fact reaches the other through it
SELECT f.v FROM sales f JOIN returns r ON f.item = r.item JOIN days d ON f.day = d.id AND r.day = d.week WHERE d.name = 'n3';
--> sales.day = days.id
--> returns.day = days.week
--> run once: days for id, name, week, d, k, s
-- dimension narrowed by the fact
SELECT f.v FROM sales f JOIN days d ON f.day = d.id AND f.store = d.week WHERE f.v = 3;
--> sales: the dimension has no condition that drops rows.
-- dimension narrowed by a filtered fact
SELECT f.v FROM sales f JOIN days d ON f.day = d.id JOIN returns r ON r.store = d.week WHERE r.v = 3;
--> sales.day = days.id <- returns (returns.store = days.week)
--> run once: days for id, name, week, d, k, s
