"""The inspector: a page that shows a table, or the tables in a folder, from logs alone, without Spark or a JVM.

Owns what ``headwater inspect`` serves: the search for tables, facts as JSON, the server on loopback, and the page.
Promises:

1. It only reads. No file of the table is written, and no data file is opened unless rows are asked for.
2. Nobody but whoever has the address, with its token, gets an answer; nothing is loaded from elsewhere.
3. Everything that comes from the table is text. Neither names nor values are ever run or shown as markup.
4. A log that is damaged is shown as far as it can be read, with the error of the rest.
5. Of a folder, nothing outside it is read, wherever links and the paths of a log lead.
"""
