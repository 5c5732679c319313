// What a user reads while a text is tokenised.
#include "rankd/verbs/tokenizing_words.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using Work = TokenizingProgress::Work;

constexpr int64_t kGiB = int64_t{1} << 30;

TokenizingProgress progress(Work work, int64_t done, int64_t tokens = 0) {
  return {.work = work, .path = "a.txt", .done_bytes = done, .total_bytes = kGiB, .tokens = tokens};
}

}  // namespace

TEST_CASE("a text that takes long is told of after two seconds, then every ten", "[rankd]") {
  TokenizingWords words;
  CHECK(!words.after(progress(Work::kTokenise, 0), 100));
  CHECK(!words.after(progress(Work::kTokenise, kGiB / 64), 101.9));
  CHECK(words.after(progress(Work::kTokenise, kGiB / 4), 102) ==
        "tokenizing a.txt: 25 % of 1.0 GiB, 128 MiB/s, 6 s left");
  CHECK(!words.after(progress(Work::kTokenise, kGiB / 2), 111.9));
  CHECK(words.after(progress(Work::kTokenise, kGiB / 2), 112) ==
        "tokenizing a.txt: 50 % of 1.0 GiB, 43 MiB/s, 12 s left");
  TokenizingProgress end = progress(Work::kTokenise, kGiB, 300'000'000);
  end.is_end = true;
  CHECK(words.after(end, 225) == "a.txt: 300 M tokens of 1.0 GiB in 2 min 5 s");
}

TEST_CASE("each work on a text has its own words", "[rankd]") {
  TokenizingWords words;
  CHECK(!words.after(progress(Work::kDigest, 0), 0));
  CHECK(words.after(progress(Work::kDigest, kGiB / 2), 5) ==
        "reading a.txt: 50 % of 1.0 GiB, 102 MiB/s, 5 s left");
  // It goes on where a process was killed: the rate is that of what is done now.
  CHECK(!words.after(progress(Work::kTokenise, kGiB / 2), 6));
  CHECK(words.after(progress(Work::kTokenise, kGiB / 2), 9) == "tokenizing a.txt: 50 % of 1.0 GiB");
  TokenizingProgress kept = progress(Work::kKept, kGiB, 1'500);
  kept.is_end = true;
  CHECK(words.after(kept, 10) == "a.txt: 1.5 K tokens, kept from before");
  CHECK(!words.after(progress(Work::kWait, 1), 20));
  CHECK(words.after(progress(Work::kWait, 2), 30) ==
        "waiting for another process that tokenizes a.txt");
  CHECK(!words.after(progress(Work::kWait, 3), 1e6));
}

}  // namespace ds
