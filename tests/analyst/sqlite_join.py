# A database in a file: tables, a transaction that is rolled back, a join.
# expect stdout: [('ada', 2, 30.0), ('bob', 1, 5.0)]
# expect file: shop.db
import sqlite3

database = sqlite3.connect("shop.db")
database.executescript("""
    create table customer (id integer primary key, name text unique);
    create table sale (customer integer references customer, amount real);
    insert into customer values (1, 'ada'), (2, 'bob');
    insert into sale values (1, 10), (1, 20), (2, 5);
""")
try:
    with database:
        database.execute("delete from sale")
        database.execute("insert into customer values (3, 'ada')")
except sqlite3.IntegrityError:
    pass
print(database.execute("""
    select name, count(*), sum(amount) from sale join customer on customer = id
    group by name order by name
""").fetchall())
database.close()
