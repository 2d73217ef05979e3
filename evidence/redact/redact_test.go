package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Secrets are put together here, so that a scanner of this repository finds none.
var (
	ghp    = "ghp" + "_" + strings.Repeat("aB3", 12)
	aws    = "AKIA" + strings.Repeat("Q2", 8)
	openai = "sk-" + "proj-" + strings.Repeat("x9", 12)
	block  = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEA\nabc+/=\n-----END RSA PRIVATE " + "KEY-----\n"
	hook   = "T01234567/B01234567/" + strings.Repeat("aB3", 8)
	jwt    = "eyJhbGciOiJI.eyJzdWIiOiIx" + ".SflKxwRJSM"
)

func TestSecrets(t *testing.T) {
	r := New()
	for _, c := range []struct{ name, text, secret, rule string }{
		{"github", "git clone with " + ghp, ghp, "github"},
		{"github's new form", "github_pat_" + strings.Repeat("A1_", 10), "github_pat_" + strings.Repeat("A1_", 10), "github"},
		{"aws", "id " + aws + ".", aws, "aws"},
		{"openai", "key: " + openai, openai, "api_key"},
		{"anthropic", "sk-ant-" + strings.Repeat("q7", 20), "sk-ant-" + strings.Repeat("q7", 20), "api_key"},
		{"a key block", "before\n" + block + "after", "MIIEowIBAAKCAQEA", "private_key"},
		{"a key block that is cut off", block[:50], "MIIEowIBAAK", "private_key"},
		{"a key block in JSON", quoted(block), "MIIEowIBAAKCAQEA", "private_key"},
		{"a bearer header", "curl -H 'Authorization: Bearer abcdef123456'", "abcdef123456", "authorization"},
		{"a bearer header in JSON", quoted(`{"Authorization": "Bearer abcdef123456"}`), "abcdef123456", "authorization"},
		{"bearer alone", "Bearer " + strings.Repeat("a1", 10), strings.Repeat("a1", 10), "bearer"},
		{"a web token", "x " + jwt, jwt, "jwt"},
		{"a variable", "export DB_PASSWORD=hunter22 && run", "hunter22", "assignment"},
		{"a quoted variable", `MY_API_KEY="correct-horse"`, "correct-horse", "assignment"},
		{"a variable in JSON", quoted(`MY_SECRET="correct-horse"`), "correct-horse", "assignment"},
		{"a member", `{"client_secret":"correct horse"}`, "correct horse", "member"},
		{"a member in a text in JSON", quoted(`{"password": "hunter22"}`), "hunter22", "member"},
		{"a header", "X-Api-Key: abc12345", "abc12345", "header"},
		{"an address", "postgres://me:hunter2@db/x", "hunter2", "url_password"},
		{"slack", "xoxb-" + strings.Repeat("1a", 8), "xoxb-" + strings.Repeat("1a", 8), "slack"},
		{"slack's webhook", "post to https://hooks.slack.com/services/" + hook + " now", hook, "webhook"},
		{"discord's webhook", "https://discord.com/api/webhooks/123/" + strings.Repeat("aB3", 10), strings.Repeat("aB3", 10), "webhook"},
		{"sendgrid", "key SG." + strings.Repeat("aB3", 7) + "." + strings.Repeat("x9Y", 14), strings.Repeat("x9Y", 14), "sendgrid"},
		{"age", "AGE-SECRET-" + "KEY-1" + strings.Repeat("QPZRY9", 9), strings.Repeat("QPZRY9", 9), "age"},
		{"vault", "hvs." + strings.Repeat("aB3", 9), strings.Repeat("aB3", 9), "service"},
		{"YAML", "db:\n  password: hunter2\n", "hunter2", "header"},
		{"quoted YAML", `PASSWORD: "hunter"`, "hunter", "member"},
		{"quoted YAML in JSON", quoted(`PASSWORD: "hunter"`), "hunter", "member"},
		{"a single quote", `{'password': 'hunter'}`, "hunter", "member"},
		{"a flag", "psql --password hunter2 -h db", "hunter2", "flag"},
		{"a flag with a prefix", "x --db-password 'correct-horse'", "correct-horse", "flag"},
		{"a flag in JSON", quoted(`x --token "correct-horse"`), "correct-horse", "flag"},
		{"arguments in JSON", `["x","--password","hunter2"]`, "hunter2", "flag"},
		{"pass", "DB_PASS=hunter x", "hunter", "assignment"},
		{"pass in quotes", quoted(`export PASS="hunter"`), "hunter", "assignment"},
		{"pwd", "MYSQL_PWD=hunter mysql", "hunter", "assignment"},
		{"lower case", "db_pass = hunter2", "hunter2", "assignment"},
		{"curl", "curl -s -u user:hunter https://x", "hunter", "flag"},
		{"curl with a long flag", `curl --user "user:hunter" https://x`, "hunter", "flag"},
		{"curl on two lines", "curl -s \\\n  -u user:hunter https://x", "hunter", "flag"},
		{"curl on two lines in JSON", quoted("curl -s \\\n  -u user:hunter https://x"), "hunter", "flag"},
		{"docker", "docker login -u me -p hunter2 r.io", "hunter2", "flag"},
		{"sshpass", "sshpass -p hunter2 ssh x", "hunter2", "flag"},
		{"mysql", "mysql -u root -phunter2 db", "hunter2", "flag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.Text(c.text)
			require.NotContains(t, got, c.secret)
			require.Regexp(t, `\[redacted `+c.rule+` sha256:[0-9a-f]{16}\]`, got)
			require.Equal(t, got, r.Text(got), "a second pass")
			require.Equal(t, got, New().Text(c.text), "the same text")
			require.Equal(t, json.Valid([]byte(c.text)), json.Valid([]byte(got)))
		})
	}
	require.Equal(t, "A=[redacted github sha256:"+strings.TrimPrefix(r.Text(ghp), "[redacted github sha256:"), r.Text("A="+ghp), "equal secrets have equal marks")
	require.Regexp(t, `^before\n-----BEGIN RSA PRIVATE KEY-----\[redacted private_key sha256:[0-9a-f]{16}\]-----END RSA PRIVATE KEY-----\nafter$`, r.Text("before\n"+block+"after"))
}

// Text that is not a secret is kept unchanged.
func TestOtherText(t *testing.T) {
	r := New()
	for _, text := range []string{
		"", "The token of appreciation: therefore we go on.", `{"max_tokens":200000,"tokens_before":160000}`,
		"TOKENS=120000000", "PASSWORD=$OTHER_VARIABLE", "API_KEY=${KEY}", "the bearer of this letter", "sk-short", "https://host:8080/path",
		`{"token":null,"secret":12345678}`, "password: necessary", "deadbeefdeadbeefdeadbeefdeadbeef", "run_11111111-1111-4111-8111-111111111111",
		"use --password to set it", "--token is required", "[--password FILE]", "--api-key KEY_ID", "docker login --password-stdin registry.example.com",
		"--token-file /run/secrets/x1", "--password /etc/pw1", "--password $PW1", "--max-tokens 4096k", "PWD=/home/u1/x", "BUILD_PWD=/home/u1/x", "BYPASS=false1",
		"first_pass=compute", "the password: see page", `{"text":"the password: "}`, `{"text":"the token: ","x":"abcdef1"}`, "curl https://x | sort -u a:b",
		"curl https://x\nsort -u a:bcdef", "curl -u user https://x:8080/y", "mysql -u root -p db", "https://hooks.slack.com/docs", "password: ******", "docker run -p 8080:80 x",
	} {
		require.Equal(t, text, r.Text(text))
	}
}

func quoted(text string) string {
	doc, _ := json.Marshal(text) // a text can always be encoded
	return string(doc)
}

// A second pass changes nothing, and JSON stays JSON.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"A_TOKEN=" + ghp, block, quoted(block), `{"a_token":"` + jwt + `"}`, "curl -u a:b x --password c1c1c1 D_PASS=e1e1e1 password: \"f1f1\" password: 'g1g1'", "a://b:c@d Authorization: Bearer xxxxxxxxx", aws + openai} {
		f.Add(seed)
	}
	r := New()
	f.Fuzz(func(t *testing.T, text string) {
		once := r.Text(text)
		if twice := r.Text(once); twice != once {
			t.Fatalf("%q became %q, and then %q", text, once, twice)
		}
		if json.Valid([]byte(text)) && !json.Valid([]byte(once)) {
			t.Fatalf("%q became %q", text, once)
		}
		if doc := quoted(text); !json.Valid([]byte(r.Text(doc))) {
			t.Fatalf("%q became %q", doc, r.Text(doc))
		}
	})
}
