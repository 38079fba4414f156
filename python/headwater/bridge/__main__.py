"""``python -m headwater.bridge``: what the JVM starts; nothing a person runs."""

from headwater.bridge.process import main

if __name__ == "__main__":
    main()
