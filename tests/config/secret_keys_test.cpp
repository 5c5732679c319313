// Which keys are secret, and that what stands in them is never shown nor written, wherever it is.
#include "config/reader/secret_keys.h"

#include "config/catalogue.h"
#include "config/explain/explain.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "config/reader/overrides.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

constexpr const char* kSecret = "do-not-tell";

// All that is said of a configuration and of what is made of it.
std::string everything_said(const std::string& text,
                            const std::vector<std::string>& overrides = {}) {
  const ReadConfig read = read_config_text(text, "f", overrides);
  std::string out;
  for (const Problem& problem : read.problems.all()) out += problem.text() + "\n";
  return out + explain_text(read, 1) + to_config_text(read.config);
}

}  // namespace

TEST_CASE("keys are secret by the words of their names", "[config]") {
  for (const char* key : {"api_key", "API_KEY", "apiKey", "WANDB_API_KEY", "hf_token", "token",
                          "HF-TOKEN", "password", "db_password", "client_secret", "secret_key",
                          "key", "access_key", "credentials", "apikey", "Authorization"}) {
    CAPTURE(key);
    CHECK(is_secret_key(key));
  }
  for (const char* key : {"", "_", "tokenizer", "max_tokens", "experiment_key", "keys", "monkey",
                          "tokens_per_second", "token_count", "passes", "keyboard", "n_head"}) {
    CAPTURE(key);
    CHECK_FALSE(is_secret_key(key));
  }
}

TEST_CASE("of the keys that the configuration knows one is secret", "[config]") {
  for (const CatalogueEntry& entry : catalogue()) {
    const std::string last = entry.path.substr(entry.path.rfind('.') + 1);
    CAPTURE(entry.path);
    CHECK(is_secret_key(last) == (entry.path == "comet.api_key"));
  }
}

TEST_CASE("URLs are shown without their users", "[config]") {
  CHECK(without_passwords("https://me:pw@h/a?b=c@d") == "https://(kept secret)@h/a?b=c@d");
  CHECK(without_passwords("a s3://token@h b ftp://u:p@q@h/") ==
        "a s3://(kept secret)@h b ftp://(kept secret)@h/");
  CHECK(without_passwords("https://h/a@b") == "https://h/a@b");
  CHECK(without_passwords("me@h://") == "me@h://");
}

TEST_CASE("an override is shown without the value of a secret key, nested and malformed ones too",
          "[config]") {
  CHECK(shown_override("comet.api_key=abc") == "comet.api_key=(kept secret)");
  CHECK(shown_override("+wandb.token=abc") == "+wandb.token=(kept secret)");
  CHECK(shown_override("wandb.token:abc") == "wandb.token:(kept secret)");
  CHECK(shown_override("secret.a=b") == "secret.a=(kept secret)");
  CHECK(shown_override(R"(+comet={"api_key": "abc)") == "+comet=(kept secret)");
  CHECK(shown_override(R"(x=[{password: abc}])") == "x=(kept secret)");
  CHECK(shown_override("data.train=https://u:p@h/x") == "data.train=https://(kept secret)@h/x");
  CHECK(shown_override("data.tokenizer=token") == "data.tokenizer=token");
  CHECK(shown_override("~comet.api_key") == "~comet.api_key");
  CHECK(shown_override("word") == "word");
}

TEST_CASE("a secret of the wrong type is not in the error of its type", "[config]") {
  for (const std::string& value :
       {fmt::format(R"({{"a": "{}"}})", kSecret), fmt::format(R"(["{}"])", kSecret)}) {
    CAPTURE(value);
    const std::string in_file =
        everything_said(fmt::format(R"({{"comet": {{"enabled": true, "api_key": {}}}}})", value));
    CHECK_THAT(in_file, Catch::Contains("comet.api_key: got ") &&
                            Catch::Contains("(kept secret), expected ") &&
                            !Catch::Contains(kSecret));
    const std::string as_word = everything_said("{}", {"+comet.api_key=" + value});
    CHECK_THAT(as_word, Catch::Contains("command line: +comet.api_key=(kept secret)") &&
                            !Catch::Contains(kSecret));
  }
}

TEST_CASE("what a section of the wrong type holds is told without its secrets", "[config]") {
  CHECK_THAT(
      everything_said(fmt::format(R"({{"wandb": [{{"token": "{}"}}]}})", kSecret)),
      Catch::Contains("wandb: got [{\"token\":\"(kept secret)\"}]") && !Catch::Contains(kSecret));
  CHECK_THAT(everything_said("{}", {fmt::format(R"(wandb=[{{"token": "{}"}}])", kSecret)}),
             !Catch::Contains(kSecret));
}

TEST_CASE("unknown keys, and keys that are passed over, are told by their names alone",
          "[config]") {
  for (const std::string& text :
       {fmt::format(R"({{"hf_token": "{0}", "wandb": {{"api_key": "{0}", "key": "{0}"}}}})",
                    kSecret),
        fmt::format(R"({{"_token": "{}"}})", kSecret),
        fmt::format(R"({{"compile": {{"kwargs": {{"password": "{}"}}}}}})", kSecret),
        fmt::format(R"({{"amp": {{"enabled": true, "opt_level": "O1", "token": "{}"}}}})", kSecret),
        fmt::format(R"({{"datastates_ckpt": {{"auth": [{{"password": "{}"}}]}}}})", kSecret)}) {
    CAPTURE(text);
    CHECK_THAT(everything_said(text), !Catch::Contains(kSecret));
  }
  for (const char* word :
       {"wandb.api_key", "+wandb.api_key", "hf_token", "+a.b.password", "..key"}) {
    CAPTURE(word);
    CHECK_THAT(everything_said("{}", {fmt::format("{}={}", word, kSecret)}),
               !Catch::Contains(kSecret));
  }
}

TEST_CASE("a secret that cannot be put where it was meant is not in the error", "[config]") {
  const std::string text = fmt::format(R"({{"comet": {{"api_key": "{}"}}}})", kSecret);
  CHECK_THAT(everything_said(text, {fmt::format("+comet.api_key={}", kSecret)}),
             Catch::Contains("comet.api_key=(kept secret)\": api_key is already given") &&
                 !Catch::Contains(kSecret));
  CHECK_THAT(everything_said(text, {fmt::format("comet.api_key.x={}", kSecret)}),
             !Catch::Contains(kSecret));
}

}  // namespace ds
