CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, model_config TEXT, parent_session_id TEXT,
    started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0, reasoning_tokens INTEGER DEFAULT 0, cwd TEXT, title TEXT,
    last_activity_at REAL, api_call_count INTEGER DEFAULT 0);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
    finish_reason TEXT, observed INTEGER DEFAULT 0, _compressed_summary INTEGER NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0, api_content TEXT, display_kind TEXT);

INSERT INTO sessions (id, source, model, model_config, parent_session_id, started_at, ended_at, end_reason, input_tokens, output_tokens, cache_read_tokens, cwd, title, last_activity_at, api_call_count) VALUES
 ('20260102_030400_aaaaaa', 'cli', 'm1', '{}', NULL, 1767323040.0, 1767323100.5, 'compression', 5000, 60, 900, '/home/dev/project', 'a title', 1767323100.0, 6),
 ('20260102_030500_bbbbbb', 'cli', 'm1', '{}', '20260102_030400_aaaaaa', 1767323100.5, 1767323140.25, 'cli_close', 900, 20, 0, '/home/dev/project', NULL, 1767323130.0, 2),
 ('20260102_030510_cccccc', 'subagent', 'm1', '{"_delegate_from":"20260102_030500_bbbbbb"}', '20260102_030500_bbbbbb', 1767323112.0, NULL, NULL, 400, 9, 0, '/home/dev/project', NULL, 1767323114.0, 1);

INSERT INTO messages (id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp, finish_reason, _compressed_summary, active, compacted, display_kind) VALUES
 (1, '20260102_030400_aaaaaa', 'user', 'what is in note.txt?', NULL, NULL, NULL, 1767323041.5, NULL, 0, 0, 1, NULL),
 (2, '20260102_030400_aaaaaa', 'assistant', '', NULL, '[{"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"note.txt\"}"}}]', NULL, 1767323042.25, 'tool_calls', 0, 0, 1, NULL),
 (3, '20260102_030400_aaaaaa', 'tool', 'hello', 'call_1', NULL, 'read_file', 1767323042.5, NULL, 0, 0, 1, NULL),
 (4, '20260102_030400_aaaaaa', 'assistant', 'It says hello.', NULL, NULL, NULL, 1767323043.75, 'stop', 0, 0, 1, NULL),
 (5, '20260102_030400_aaaaaa', 'user', '[a background process has ended]', NULL, NULL, NULL, 1767323050.0, NULL, 0, 0, 1, 'internal_notification'),
 (6, '20260102_030400_aaaaaa', 'assistant', 'Noted.', NULL, NULL, NULL, 1767323051.0, 'stop', 0, 0, 1, NULL),
 (7, '20260102_030400_aaaaaa', 'user', 'and now?', NULL, NULL, NULL, 1767323060.5, NULL, 0, 0, 1, NULL),
 (8, '20260102_030400_aaaaaa', 'assistant', 'Still hello.', NULL, NULL, NULL, 1767323061.5, 'stop', 0, 0, 1, NULL),
 (9, '20260102_030400_aaaaaa', 'user', '[CONTEXT COMPACTION — REFERENCE ONLY] hello was read', NULL, NULL, NULL, 1767323070.0, NULL, 1, 1, 0, NULL),
 (10, '20260102_030400_aaaaaa', 'user', 'and now?', NULL, NULL, NULL, 1767323060.5, NULL, 0, 1, 0, NULL),
 (11, '20260102_030400_aaaaaa', 'assistant', 'Still hello.', NULL, NULL, NULL, 1767323061.5, 'stop', 0, 1, 0, NULL),
 (12, '20260102_030400_aaaaaa', 'user', 'once more', NULL, NULL, NULL, 1767323090.5, NULL, 0, 1, 0, NULL),
 (13, '20260102_030400_aaaaaa', 'assistant', 'Hello, once more.', NULL, NULL, NULL, 1767323091.5, 'stop', 0, 1, 0, NULL),
 (14, '20260102_030500_bbbbbb', 'user', '[CONTEXT COMPACTION — REFERENCE ONLY] hello, again', NULL, NULL, NULL, 1767323100.75, NULL, 1, 1, 0, NULL),
 (15, '20260102_030500_bbbbbb', 'user', 'once more', NULL, NULL, NULL, 1767323090.5, NULL, 0, 1, 0, NULL),
 (16, '20260102_030500_bbbbbb', 'assistant', 'Hello, once more.', NULL, NULL, NULL, 1767323091.5, 'stop', 0, 1, 0, NULL),
 (17, '20260102_030500_bbbbbb', 'user', 'let somebody look', NULL, NULL, NULL, 1767323110.0, NULL, 0, 1, 0, NULL),
 (18, '20260102_030500_bbbbbb', 'assistant', '', NULL, '[{"id":"call_2","type":"function","function":{"name":"delegate_task","arguments":"{}"}}]', NULL, 1767323111.5, 'tool_calls', 0, 1, 0, NULL),
 (19, '20260102_030510_cccccc', 'user', 'look at note.txt', NULL, NULL, NULL, 1767323112.5, NULL, 0, 1, 0, NULL),
 (20, '20260102_030510_cccccc', 'assistant', 'hello', NULL, NULL, NULL, 1767323114.0, 'stop', 0, 1, 0, NULL),
 (21, '20260102_030500_bbbbbb', 'tool', 'hello', 'call_2', NULL, 'delegate_task', 1767323115.0, NULL, 0, 1, 0, NULL),
 (22, '20260102_030500_bbbbbb', 'assistant', 'Somebody says hello.', NULL, NULL, NULL, 1767323116.5, 'stop', 0, 1, 0, NULL);
