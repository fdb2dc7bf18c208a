"""The journal of writes in flight: intents, staging areas, and the audit of what recovery did."""
