addSbtPlugin("org.scalameta" % "sbt-scalafmt" % "2.5.6") // the last that runs on sbt 1.11; .scalafmt.conf names the formatter's version
