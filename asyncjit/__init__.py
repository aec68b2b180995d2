"""asyncjit: an asyncio-native execution engine for array programs."""
