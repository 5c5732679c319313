#include "launcher/run/data_date.h"

#include "config/load.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::string config_with(const std::string& data) {
  return to_config_text(
      parse_config(R"({"train_batch_size": 1, "data": {"train": "x.jsonl", )" + data + "}}"));
}

std::optional<std::string> date_of(const std::string& text) {
  return parse_config(text).data.supervised.date;
}

TEST_CASE("a run of chats has the date on which it began", "[launcher]") {
  const std::string chats = config_with(R"("format": "chat")");
  const std::string begun = with_date(chats, std::nullopt, "2026-11-30");
  CHECK(date_of(begun) == "2026-11-30");
  CHECK(with_date(chats, begun, "2026-12-01") == begun);
  CHECK(date_of(with_date(chats, "no configuration", "2026-12-01")) == "2026-12-01");
  CHECK(date_of(with_date(chats, chats, "2026-12-01")) == "2026-12-01");
}

TEST_CASE("a date that somebody says is that, and texts have none", "[launcher]") {
  const std::string said = config_with(R"("format": "chat", "date": "2024-07-26")");
  const std::string begun = with_date(config_with(R"("format": "chat")"), {}, "2026-11-30");
  CHECK(with_date(said, begun, "2026-12-01") == said);
  const std::string texts = config_with(R"("format": "text")");
  CHECK(with_date(texts, begun, "2026-12-01") == texts);
  CHECK(with_date("no configuration", begun, "2026-12-01") == "no configuration");
}

}  // namespace
}  // namespace ds
