package redact

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
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
	cut    = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEAa1\nxP7/dPZm4cR5tQ9+Zs"
	hook   = "T01234567/B01234567/" + strings.Repeat("aB3", 8)
	// The first line of a key, which a text may mention.
	mention = "-----BEGIN PRIVATE " + "KEY-----"
	jwt     = "eyJhbGciOiJI.eyJzdWIiOiIx" + ".SflKxwRJSM"
)

type sample struct{ name, text, secret, rule string }

func TestSecrets(t *testing.T) {
	check(t, secrets())
	r := New()
	require.Equal(t, "A=[redacted github sha256:"+strings.TrimPrefix(r.Text(ghp), "[redacted github sha256:"), r.Text("A="+ghp), "equal secrets have equal marks")
	require.Regexp(t, `^before\n-----BEGIN RSA PRIVATE KEY-----\[redacted private_key sha256:[0-9a-f]{16}\]-----END RSA PRIVATE KEY-----\nafter$`, r.Text("before\n"+block+"after"))
}

func secrets() []sample {
	return []sample{
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
	}
}

// The samples include escaped names and values, private keys within other text, and whole
// headers.
func TestSecretsInOddForms(t *testing.T) {
	check(t, oddSecrets())
}

func oddSecrets() []sample {
	return []sample{
		{"a password with a quote", `{"password":"ab\"cdefgh1"}`, "cdefgh1", "member"},
		{"a password with a backslash", `{"password":"ab\\cdefgh1"}`, "cdefgh1", "member"},
		{"a password that ends with a backslash", `{"password":"cdefgh1\\","x":"y"}`, "cdefgh1", "member"},
		{"a password with a bracket", `{"password":"ab[cdefgh1"}`, "cdefgh1", "member"},
		{"a password with a quote in a text in JSON", quoted(`{"password":"ab\"cdefgh1","x":"y"}`), "cdefgh1", "member"},
		{"the same, twice in JSON", quoted(quoted(`{"password":"ab\"cdefgh1"}`)), "cdefgh1", "member"},
		{"an escaped name", `{"pass\u0077ord":"cdefgh1"}`, "cdefgh1", "member"},
		{"an escaped token", `{"a":"ghp\u005f` + ghp[4:] + `"}`, ghp[4:], "github"},
		{"tokens", `{"tokens":["x1y2z3w4", "a9b8c7d6"]}`, "a9b8c7d6", "member"},
		{"a key with Proc-Type", strings.Replace(cut, "\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1), "cR5t", "private_key"},
		{"an indented key", strings.ReplaceAll("key: |\n"+cut, "\n", "\n  "), "cR5t", "private_key"},
		{"a key with line numbers", "     1\t" + strings.ReplaceAll(cut, "\n", "\n     2\t"), "cR5t", "private_key"},
		{"a key with line numbers and arrows", "     1→" + strings.ReplaceAll(cut, "\n", "\n     2→"), "cR5t", "private_key"},
		{"a key in a diff", "+" + strings.ReplaceAll(cut, "\n", "\n+"), "cR5t", "private_key"},
		{"a key in JSON that is cut off", `{"a":` + quoted(cut) + `,"b":"c"}`, "cR5t", "private_key"},
		{"a key twice in JSON", quoted(quoted(block)), "MIIEowIBAAKCAQEA", "private_key"},
		{"a key twice in JSON that is cut off", quoted(quoted(cut)), "cR5t", "private_key"},
		{"the lines of a key", `["` + strings.ReplaceAll(cut, "\n", `","`) + `"]`, "cR5t", "private_key"},
		{"another scheme", "Authorization: ApiKey a1b2c3d4e5", "a1b2c3d4e5", "authorization"},
		{"no scheme", "curl -H 'authorization: a1b2c3d4e5' https://x", "a1b2c3d4e5", "authorization"},
		{"a digest", `Authorization: Digest username="u", response="` + strings.Repeat("0a", 16) + `"`, strings.Repeat("0a", 16), "authorization"},
		{"a list of headers", `["Authorization","Bearer short12"]`, "short12", "authorization"},
		{"a proxy's header", "Proxy-Authorization: Basic dTpwYXNz", "dTpwYXNz", "authorization"},
		{"a cookie", "Cookie: a=b; session=a1b2c3d4e5", "a1b2c3d4e5", "cookie"},
		{"a new cookie", `{"Set-Cookie":"sid=a1b2c3d4e5; HttpOnly"}`, "a1b2c3d4e5", "cookie"},
		{"an address in capitals", "HTTPS://u:hunter22@h/x", "hunter22", "url_password"},
		{"a password with a slash", "postgres://u:ab/hunter22@db/x", "hunter22", "url_password"},
		{"a password that begins with a slash", "postgres://u:/hunter22@db/x", "hunter22", "url_password"},
		{"a password that begins with #", "postgres://u:#hunter22@db/x", "hunter22", "url_password"},
		{"a token as the user", "https://a1b2c3d4e5f6a7b8c9@github.com/a/b", "a1b2c3d4e5f6a7b8c9", "url_password"},
		{"a key in a query", "https://x/v1?alt=json&key=a1b2c3d4e5", "a1b2c3d4e5", "url_query"},
		{"a signature in a query in JSON", `"https://x/v1?sv=1\u0026sig=a1b2c3d4e5"`, "a1b2c3d4e5", "url_query"},
		{"a signature of AWS", "https://x/?X-Amz-Date=1&X-Amz-Signature=a1b2c3d4e5", "a1b2c3d4e5", "url_query"},
		{"netrc", "machine h\n  login me\n  password hunter22", "hunter22", "assignment"},
		{"docker's configuration", `{"auths":{"r.io":{"auth":"dTpodW50ZXIy"}}}`, "dTpodW50ZXIy", "member"},
		{"kubectl's configuration", "    client-key-data: LS0tLS1CRUdJTi1", "LS0tLS1CRUdJTi1", "header"},
		{"azure", "AccountName=me;AccountKey=a1b2c3d4e5==;x=y", "a1b2c3d4e5", "assignment"},
	}
}

// The samples include quoted values with blanks, assignments in several programming
// languages, names of variables that hold secrets, and passwords that contain @.
func TestSecretsOfAssignments(t *testing.T) {
	check(t, assignedSecrets())
	require.Regexp(t, `^postgres://u:\[redacted url_password sha256:[0-9a-f]{16}\]@host/db@1$`, New().Text("postgres://u:p@ss@host/db@1"))
}

func assignedSecrets() []sample {
	horse := "correct horse battery staple"
	return []sample{
		{"blanks", `password = "` + horse + `"`, "staple", "assignment"},
		{"blanks in a file of variables", `DB_PASSWORD="` + horse + `"`, "staple", "assignment"},
		{"blanks in single quotes", `secret = '` + horse + `'`, "staple", "assignment"},
		{"blanks in JSON", quoted(`PASSWORD="` + horse + `"`), "staple", "assignment"},
		{"blanks twice in JSON", quoted(quoted(`PASSWORD="` + horse + `"`)), "staple", "assignment"},
		{"blanks in YAML", `password: "` + horse + `"`, "staple", "member"},
		{"blanks in YAML in JSON", quoted("db:\n  password: '" + horse + "'\n"), "staple", "member"},
		{"an escaped quote", `password = "ab\"cd horse1"`, "horse1", "assignment"},
		{"a string that does not end", `password = "hunter22`, "hunter22", "assignment"},
		{"Go", `password := "hunter22"`, "hunter22", "assignment"},
		{"Go in JSON", quoted(`password := "` + horse + `"`), "staple", "assignment"},
		{"Ruby", `"password" => "hunter22"`, "hunter22", "assignment"},
		{"Ruby without a string", `:db_password => hunter22`, "hunter22", "assignment"},
		{"a password that ends like a name", "password = hunter2pass", "hunter2pass", "assignment"},
		{"an appended value", `token += "hunter22"`, "hunter22", "assignment"},
		{"an element", `config["db_password"] = "hunter22"`, "hunter22", "assignment"},
		{"pass in YAML", "user: me\npass: hunter2\n", "hunter2", "header"},
		{"pass in YAML in JSON", quoted("user: me\npass: hunter2\n"), "hunter2", "header"},
		{"pass with a prefix in YAML", "DB_PASS: hunter2", "hunter2", "header"},
		{"pass as a string in YAML", "smtp_pass: '" + horse + "'", "staple", "member"},
		{"pass in Go", `pass := "hunter2"`, "hunter2", "assignment"},
		{"pass with blanks", `DB_PASS="` + horse + `"`, "staple", "assignment"},
		{"pass in JSON after a line", quoted("a\nDB_PASS=hunter"), "hunter", "assignment"},
		{"a password with @", "postgres://u:p@ss@host/db", "ss@host", "url_password"},
		{"a password with more @", "postgres://u:ab/p@@s@w0rd@host:5432/db", "w0rd", "url_password"},
		{"a header in Go", `authorization := "Bearer hunter22x"`, "hunter22x", "authorization"},
		{"a header of an element", `h["Authorization"] = "Bearer hunter22x"`, "hunter22x", "authorization"},
		{"a header in a sentence", "The header Authorization: is required, as in Authorization: Bearer hunter22x", "hunter22x", "authorization"},
		{"a key on one line", strings.ReplaceAll(block, "\n", " "), "MIIEowIBAAKCAQEA", "private_key"},
		{"a key with slashes in JSON", strings.ReplaceAll(quoted(cut), "/", `\/`), "cR5t", "private_key"},
		{"a key after one that is mentioned", mention + " begins it.\n" + cut, "cR5t", "private_key"},
		{"a key that is cut off before another", cut + "\n" + block, "cR5t", "private_key"},
	}
}

// Source code and sentences that only mention secrets are not changed.
func TestTextAboutSecrets(t *testing.T) {
	r := New()
	for _, text := range []string{
		`authorization := r.Header.Get("Authorization")`, `authorization = getAuthorization(request, 1)`, "authorization: req.headers.authorization,", "const authorization = authHeader;",
		`let authorization = format!("Bearer {}", token1);`, `authorization = request.headers["Authorization"]`, `if authorization == "" {`, "authorization: Option<String>, // since 1.2",
		"headers: { authorization: auth_header }", `cookie := http.Cookie{Name: "a", Value: b}`,
		"The header Authorization: is required for RFC 7235 and 2 others.", "Authorization: is required", "Authorization: (see below) for 3 reasons", "Authorization: Bearer tokens are described in RFC 6750.",
		"password = getPassword(user)", "password := os.Getenv(name1)", `token = os.environ["TOKEN_1"]`, "API_KEY = settings.API_KEY", "connect(user=args.user, password=args.password)",
		"connect(password=password, secret=client_secret)", "token = accessToken;", "token = await fetchToken()", "this.secret = new SecretKey2(bytes)", "secret := sha256.Sum256(data)", "password = undefined;",
		"secret => hash(secret)", `url = "?password=" + pw + "&token=" + token + "&x=1"`, `url = '?password='+password+'&x='`, `password = "$OTHER_VARIABLE and more"`, `{"a":"PASSWORD=","b":"c d e f"}`,
		"config.PrivateKey = testRSA2048PrivateKey", "PrivateKey: testRSA2048PrivateKey,", `case "Authorization", "Www-Authenticate", "X-Api-Key":`,
		"--- PASS: TestFoo1 (0.00s)", "PASS: test1.sh", "first-pass: ab12cd34", "compass: ab12cd34", "pass: the tests", `pass := compute2(x)`,
		"A file begins with " + mention + " and has lines.\n\nThen it has more about AuthorizationHandler2.\n", "`" + mention + "` begins it, and it has more.",
		"Look for this line:\n" + mention + "\nIt begins a key.\nIt has more.\n", mention + "\n...\n" + strings.Replace(mention, "BEGIN", "END", 1) + "\nmore\n",
		quoted(mention + "\nIt begins a key.\n"), `if strings.Contains(s, "` + mention + `\n") {`,
		"https://host:8080/a@b@c", "https://u@host/a:b@c",
	} {
		require.Equal(t, text, r.Text(text))
	}
}

func check(t *testing.T, samples []sample) {
	t.Helper()
	r := New()
	for _, c := range samples {
		t.Run(c.name, func(t *testing.T) {
			got := r.Text(c.text)
			require.NotContains(t, got, c.secret)
			require.Regexp(t, `\[redacted `+c.rule+` sha256:[0-9a-f]{16}\]`, got)
			require.Equal(t, got, r.Text(got), "a second pass")
			require.Equal(t, got, New().Text(c.text), "the same text")
			require.Equal(t, json.Valid([]byte(c.text)), json.Valid([]byte(got)))
		})
	}
}

// Tokens of services that have a prefix.
func TestPrefixes(t *testing.T) {
	r := New()
	long, hex := strings.Repeat("a1B2", 15), strings.Repeat("a1", 20)
	for _, token := range []string{"gsk" + "_" + long, "xai" + "-" + long, "pplx" + "-" + long, "r8" + "_" + long, "GOCSPX" + "-" + long, "sntrys" + "_" + long, "ntn" + "_" + long,
		"figd" + "_" + long, "PMAK" + "-" + hex[:24] + "-" + hex[:34], "dp.pt" + "." + long, long[:14] + ".atlasv1." + long, "glc" + "_" + long, "GR1348941" + long, "gloas" + "-" + long,
		"ATBB" + long, "ATATT3" + long, "sbp" + "_" + hex, "pscale_tkn" + "_" + long, "NRAK" + "-" + strings.ToUpper(long[:27]), "sq0atp" + "-" + long[:22]} {
		got := r.Text("x " + token + " y")
		require.Regexp(t, `^x \[redacted [a-z_]+ sha256:[0-9a-f]{16}\] y$`, got, token)
		require.Equal(t, got, r.Text(got))
	}
}

func TestValue(t *testing.T) {
	r := New()
	require.Regexp(t, `^\[redacted member sha256:[0-9a-f]{16}\]$`, r.Value("meta deploy_token", "a b"))
	require.Regexp(t, `^see \[redacted github sha256:[0-9a-f]{16}\]$`, r.Value("ticket", "see "+ghp))
	once := r.Value("token", "abc")
	require.Equal(t, once, r.Value("token", once))
	require.Equal(t, "T-1", r.Value("ticket", "T-1"))
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
		"Authorization: Bearer $TOKEN", `-H "Authorization: Bearer ${TOKEN}"`, "Authorization: required", "the authorization: it is checked by the server", "Cookie: a small file",
		`{"password":"${DB}"}`, `{"pwd":"/home/me"}`, `{"auth":"none"}`, "https://host:8080/@vite/client", "ssh://git@github.com/a/b", `{"a":"\u001b[0m \\u0041"}`, "?key=enter", "max_tokens: 4096",
	} {
		require.Equal(t, text, r.Text(text))
	}
}

func quoted(text string) string {
	doc, _ := json.Marshal(text) // a text can always be encoded
	return string(doc)
}

// The laws of FuzzText hold for random texts that are put together from parts that the
// rules search for.
func TestRandomTexts(t *testing.T) {
	r := New()
	parts := []string{`"`, `\"`, `\\`, `\`, `'`, "\n", `\n`, ` `, `: `, `:`, `, `, `=`, `[`, `]`, `{`, `}`, "password", "api_key", "token", "tokens", "Authorization", "Cookie", "auth", "pwd",
		"Bearer ", "Basic ", "Digest ", `response="`, "a1b2c3d4e5f6a7b8c9", "hunter22", "x", cut[:31], block[len(block)-30:], ghp, "https://", "@", "/", "curl ", "-u ", "a:b1", "--password ", "docker login ",
		"-p ", "login ", "?key=", "sig=", "${X}", "`", `\u0070`, "MIIEowIBAAKCAQEAa1", `"password":"`, `\"token\":\"`, "mysql ", "sshpass ", "pass=", "X_PASS="}
	for seed := range 500 {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		var b strings.Builder
		for range random.IntN(14) + 1 {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		s := b.String()
		for _, text := range []string{s, quoted(s), quoted(quoted(s)), `{"password":` + quoted(s) + `,"k":` + quoted(s) + `}`} {
			got := r.Text(text)
			require.Equal(t, got, r.Text(got), "a second pass of %q", text)
			if json.Valid([]byte(text)) {
				require.True(t, json.Valid([]byte(got)), "%q became %q", text, got)
			}
		}
	}
}

// A second pass changes nothing, and JSON stays JSON.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"A_TOKEN=" + ghp, block, quoted(block), `{"a_token":"` + jwt + `"}`, "curl -u a:b x --password c1c1c1 D_PASS=e1e1e1 password: \"f1f1\" password: 'g1g1'", "a://b:c@d Authorization: Bearer xxxxxxxxx", aws + openai, `{"password":"ab\"cd12","tokens":["x1y2z3"]}`, quoted(quoted(cut)), `Authorization: Basic x1y2z3 Cookie: a=b1c2d3`, `{"pass\u0077ord":"x1y2z3"} https://a1b2c3d4e5f6a7b8c9@h ?sig=a1b2c3d4e5`, "docker login -p x1y2z3 login a password b1c2d3"} {
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

// The time for a text grows with its length, not with its square.
func BenchmarkText(b *testing.B) {
	r := New()
	for _, unit := range []string{"curl ", "docker login ", "authorization: ", `"password":"`, `{"tokens":["`, `"token":"x","a":"b",`, "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\"", "password " + `\\\"`, "a://", "a://b:c@", "cookie: ", "login ", "word word "} {
		b.Run(unit, func(b *testing.B) {
			text := strings.Repeat(unit, 1_000_000/len(unit))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Text(text)
			}
		})
	}
}

// The method Text searches only near the words of a rule. The method finds the same secrets
// as a search of the whole text.
func TestLawWordsMissNoSecret(t *testing.T) {
	r := New()
	slow := func(text string) string {
		text = r.unescaped(text)
		for i := range r.rules {
			text = r.replaced(&r.rules[i], text, []span{{0, len(text)}})
		}
		return text
	}
	filler := strings.Repeat("word, ", 100) + "\n"
	all := slices.Concat(secrets(), oddSecrets(), assignedSecrets())
	require.NotEmpty(t, all)
	for _, name := range []string{"token", "secret", "passwd", "password", "passphrase", "credential", "credentials", "api key", "access key", "account key", "secret key", "private key", "signing key", "encryption key", "client key data"} {
		for _, separator := range []string{"", "_", "-"} {
			name := strings.ReplaceAll(name, " ", separator)
			for _, is := range []string{"=", " := ", " += ", " => ", ": ", `": "`, `": ["`, "_1 ="} {
				all = append(all, sample{name: name, text: `"` + name + is + `hunter22"`})
			}
		}
	}
	for _, c := range all {
		for _, text := range []string{c.text, quoted(c.text), filler + c.text + "\n" + filler + c.text, strings.ToUpper(c.text)} {
			require.Equal(t, slow(text), r.Text(text), c.name)
		}
	}
	for seed := range 100 {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		var b strings.Builder
		for range random.IntN(6) + 1 {
			b.WriteString(all[random.IntN(len(all))].text)
			b.WriteString([]string{"", " ", "\n", filler, `"`, "password", " := ", "Authorization"}[random.IntN(8)])
		}
		require.Equal(t, slow(b.String()), r.Text(b.String()), "seed %d", seed)
	}
}
