"""Java options for the JVMs of tests: they live for minutes, and optimizing for longer takes a third of their time."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
