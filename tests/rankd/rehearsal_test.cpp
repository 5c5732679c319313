// What check finds by planning a run as its ranks would.
#include "rankd/verbs/rehearsal.h"

#include "config/load.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

constexpr const char* kJob =
    R"({"model": {"family": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 8,
                  "vocab_size": 256},
        "data": {"train": ["corpus.txt"]}, "train": {"steps": 4}, "train_batch_size": 8,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}})";

// "78 key: what", or "" where nothing is wrong.
std::string said(const std::vector<std::string>& overrides, int ranks = 2,
                 LimitCheck limits = LimitCheck::kNone) {
  MemoryFileSystem files;
  const Config config = parse_config(kJob, overrides);
  const std::vector<InputDefect> found = rehearse(config, ranks, limits, files);
  if (found.empty()) return "";
  const InputDefect& first = found.front();
  return fmt::format("{} {}: {}", static_cast<int>(first.code), first.key, first.what);
}

}  // namespace

TEST_CASE("a run that can be planned leaves nothing to say", "[rankd]") {
  CHECK(said({}).empty());
  CHECK(said({"zero_optimization.stage=3"}, 4).empty());
  CHECK(said({"pipeline.stages=2"}).empty());
}

TEST_CASE("what the ranks of a run would refuse is found, by the key that names it", "[rankd]") {
  CHECK_THAT(said({R"(optimizer.param_groups=[{"match": ["nothing*"], "lr": 1}])"}),
             Catch::StartsWith("78 optimizer.param_groups[0]: no parameter"));
  CHECK_THAT(said({"pipeline.stages=2", "pipeline.partition=type:Nothing"}),
             Catch::StartsWith("78 pipeline.partition: none of the"));
  CHECK_THAT(said({"train.steps=5000000000000000"}), Catch::StartsWith("78 train.steps: "));
  CHECK_THAT(said({"~train.steps", "+train.epochs=1e300"}), Catch::StartsWith("78 train.epochs: "));
  const std::vector<std::string> nvme = {
      R"(zero_optimization={"stage": 3, "offload_optimizer": {"device": "nvme",
         "nvme_path": "/swap"}})"};
  CHECK(said(nvme).empty());
  for (const char* aio : {"aio.block_size=1000", "aio.block_size=2147483648",
                          "aio.queue_depth=100000", "aio.thread_count=5000"}) {
    CAPTURE(aio);
    CHECK(said({aio}).empty());  // nobody reads it then
    CHECK_THAT(said({nvme.front(), aio}), Catch::StartsWith("78 aio."));
  }
}

TEST_CASE("limits of memory count where the ranks are those of the run", "[rankd]") {
  CHECK(said({"memory.device_limit=1kB"}).empty());
  CHECK_THAT(said({"memory.device_limit=1kB"}, 2, LimitCheck::kOfPlan),
             Catch::StartsWith("78 memory.device_limit: rank 0 needs"));
}

TEST_CASE("more buffers than there are parts take no more memory", "[rankd]") {
  const auto with = [](const char* where) {
    return said(
        {fmt::format(R"(zero_optimization={{"stage": 3, {}}})", where),
         "zero_optimization.stage3_param_persistence_threshold=0", "memory.host_limit=100MB"},
        2, LimitCheck::kOfPlan);
  };
  CHECK(with(R"("offload_optimizer": {"device": "nvme", "nvme_path": "/swap",
                                      "buffer_count": 1000000})")
            .empty());
  CHECK(with(R"("offload_param": {"device": "nvme", "nvme_path": "/swap", "max_in_cpu": 0,
                                  "buffer_count": 1000000})")
            .empty());
}

}  // namespace ds
