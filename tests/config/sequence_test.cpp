// Sequence parallelism in a file: what cannot be shared out, what excludes it, what has no effect.
#include <fmt/format.h>

#include "config/elastic_options.h"
#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/config_texts.h"

namespace ds {
namespace {

using test::problems_of;

std::string gpt2(int ranks, const std::string& more = "") {
  return fmt::format(R"({{"model": {{"family": "gpt2", "n_head": 12, "n_positions": 32}},
                         "sequence_parallel_size": {}{}}})",
                     ranks, more);
}

TEST_CASE("sequences and heads that ranks cannot share are one error", "[config]") {
  CHECK(problems_of(gpt2(4), Severity::kError).empty());
  CHECK(problems_of(gpt2(3), Severity::kError) ==
        "sequence_parallel_size: 3 ranks cannot share sequences of 32 tokens equally; expected a "
        "divisor of 32\n");
  CHECK(problems_of(gpt2(8), Severity::kError) ==
        "sequence_parallel_size: 8 ranks cannot share 12 heads equally; expected a divisor of "
        "12\n");
  CHECK(problems_of(gpt2(4, R"(, "data": {"sequence_length": 30})"), Severity::kError) ==
        "sequence_parallel_size: 4 ranks cannot share sequences of 30 tokens equally; expected a "
        "divisor of 30\n");
  const std::string grouped = R"({"model": {"family": "llama", "num_attention_heads": 8,
      "num_key_value_heads": 2, "hidden_size": 64}, "sequence_parallel_size": 4})";
  CHECK(problems_of(grouped, Severity::kError) ==
        "sequence_parallel_size: 4 ranks cannot share 8 heads and 2 of keys and values equally; "
        "expected a divisor of 2\n");
}

TEST_CASE("a ring asks for even pieces and no dropout in attention, and not for heads",
          "[config]") {
  const auto ring = [](int ranks, const std::string& more = "") {
    return gpt2(ranks, R"(, "sequence_parallel_attention": "ring")" + more);
  };
  const auto model = [](int ranks, double dropout) {
    return fmt::format(R"({{"model": {{"family": "gpt2", "n_head": 3, "n_embd": 12,
        "n_positions": 32, "attn_pdrop": {}}}, "sequence_parallel_size": {},
        "sequence_parallel_attention": "ring"}})",
                       dropout, ranks);
  };
  CHECK(problems_of(model(8, 0), Severity::kError).empty());
  CHECK(problems_of(model(1, 0.1), Severity::kError).empty());
  CHECK(problems_of(model(32, 0), Severity::kError) ==
        "sequence_parallel_size: 32 ranks of a ring cannot have two equal pieces each of sequences "
        "of 32 tokens; expected a number whose double divides 32\n");
  CHECK(problems_of(model(2, 0.25), Severity::kError) ==
        "sequence_parallel_size: a ring drops no probabilities of attention, and the model's "
        "dropout of them is 0.25; set that to 0, or sequence_parallel_attention to \"ulysses\"\n");
  CHECK_THAT(problems_of(ring(1), Severity::kNote),
             Catch::Contains("sequence_parallel_attention: has no effect without sequence"));
  // Three heads are shared out by three ranks, whatever shares the samples.
  const std::string three = model(8, 0);
  CHECK(
      problems_of(three.substr(0, three.rfind('}')) + R"(, "tensor_parallel": {"autotp_size": 3}})",
                  Severity::kError)
          .empty());
}

TEST_CASE("rings of fewer ranks exchange heads in each place, which have to divide", "[config]") {
  const auto both = [](int ranks, int ring, const std::string& more = "") {
    return gpt2(ranks, fmt::format(R"(, "sequence_parallel_attention": "ring",
                                      "sequence_parallel_ring_size": {}{})",
                                   ring, more));
  };
  const auto with = [&](int ranks, int ring) {
    std::string text = both(ranks, ring);
    return text.replace(text.find("\"n_head\""), 0, R"("attn_pdrop": 0, )");
  };
  CHECK(problems_of(with(8, 2), Severity::kError).empty());
  const Config config = read_config_text(with(8, 2), "f").config;
  CHECK(sequence_sharing(config).ring == 2);
  CHECK(sequence_sharing(config).trading() == 4);
  CHECK(problems_of(with(8, 3), Severity::kError) ==
        "sequence_parallel_ring_size: rings of 3 ranks cannot be made of the 8 of "
        "sequence_parallel_size; expected a divisor of 8\n");
  CHECK(problems_of(with(16, 2), Severity::kError) ==
        "sequence_parallel_size: 8 ranks in each of 2 places of a ring cannot share 12 heads "
        "equally; expected a divisor of 12\n");
  CHECK(problems_of(with(6, 2), Severity::kError) ==
        "sequence_parallel_size: 6 ranks cannot share sequences of 32 tokens equally; expected a "
        "divisor of 32\n");
  CHECK_THAT(problems_of(both(8, 2), Severity::kError),
             Catch::Contains("a ring drops no probabilities"));
  CHECK_THAT(problems_of(gpt2(4, R"(, "sequence_parallel_ring_size": 2)"), Severity::kNote),
             Catch::Contains("sequence_parallel_ring_size: has no effect unless"));
  // Each rank of a layer has six heads, which two trade.
  CHECK(problems_of(with(4, 2).insert(1, R"("tensor_parallel": {"autotp_size": 2}, )"),
                    Severity::kError)
            .empty());
}

TEST_CASE("neighbours and shared sequences exclude each other", "[config]") {
  for (const char* key : {R"("mics_shard_size": 2)", R"("zero_hpz_partition_size": 2)",
                          R"("zero_quantized_gradients": true)"}) {
    const std::string zero = fmt::format(R"(, "zero_optimization": {{"stage": 3, {}}})", key);
    CHECK_THAT(problems_of(gpt2(2, zero), Severity::kError),
               Catch::StartsWith("sequence_parallel_size: excludes mics_shard_size"));
    CHECK(problems_of(gpt2(1, zero), Severity::kError).empty());
  }
}

TEST_CASE("keys of shared sequences have no effect without them, and the other way round",
          "[config]") {
  CHECK_THAT(problems_of(R"({"data_parallel_size": 2})", Severity::kNote),
             Catch::Contains("data_parallel_size: has no effect without sequence_parallel_size"));
  CHECK_THAT(problems_of(R"({"seq_parallel_communication_data_type": "bf16"})", Severity::kNote),
             Catch::Contains("has no effect without sequence parallelism"));
  CHECK_THAT(problems_of(gpt2(2, R"(, "communication_data_type": "bf16")"), Severity::kNote),
             Catch::Contains("communication_data_type: has no effect with sequence parallelism"));
}

TEST_CASE("a world is data times sequence, and the mesh that a file names", "[config]") {
  const Config two = read_config_text(gpt2(2), "f").config;
  CHECK(data_ranks(two, 8) == 4);
  CHECK_THROWS_WITH(data_ranks(two, 3), Catch::Contains("3 ranks cannot be split"));
  const Config mesh = read_config_text(gpt2(2, R"(, "data_parallel_size": 4)"), "f").config;
  CHECK(data_ranks(mesh, 8) == 4);
  CHECK_THROWS_WITH(data_ranks(mesh, 4), Catch::Contains("a mesh of 8 ranks, and there are 4"));
}

}  // namespace
}  // namespace ds
