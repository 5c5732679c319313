// Supervised fine-tuning: from conversations and prompts to the tokens, labels and losses that
// TRL's SFTTrainer has of them (tests/golden/supervised).
#include "tests/train/objectives/golden_folder.h"
#include "train/samples/supervised_data.h"

namespace ds {
namespace {

using namespace testing;

const std::string kGolden = source_directory() + "/tests/golden/supervised";

std::string settings(const std::string& data, int batch, int steps) {
  return fmt::format(
      R"({{"model": ".", "train_batch_size": {}, "train": {{"steps": {}, "seed": 1}},
           "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-3, "weight_decay": 0}}}},
           "gradient_clipping": 0,
           "data": {{"order": "sequential", "sequence_length": 96, {}}}}})",
      batch, steps, data);
}

class Supervised {
 public:
  Supervised(const std::string& data, int batch, int steps)
      : run_(kGolden + "/model", parse_config(settings(data, batch, steps))) {
    run_.copy_from(kGolden);
    run_.config.data.train = {run_.folder + "/" + run_.config.data.train.front()};
    run_.config.data.validation = run_.config.data.train;
    run_.golden.Parse(run_.files.read_text(run_.folder + "/expected.json", 1 << 20).c_str());
    REQUIRE_FALSE(run_.golden.HasParseError());
    model_ = model_config(run_.config, run_.files);
  }

  Got train(const Shares& share) {
    const TrainingData data = open_data(run_.config.data, model_, run_.files);
    return train_folder(
        run_, share, {.source = [&](const SamplePlace& place, const BatchShape& batch) {
          return make_sample_source(data.train,
                                    Sampler(data.train.size(), SampleOrder::kSequential, 0), batch,
                                    place, {.rules = data.rules});
        }});
  }
  int64_t samples() { return open_data(run_.config.data, model_, run_.files).train.size(); }
  const rapidjson::Value& wanted(const std::string& name) const {
    return run_.golden[name.c_str()];
  }
  GoldenFolder& run() { return run_; }
  const ModelConfig& model() const { return model_; }

 private:
  GoldenFolder run_;
  ModelConfig model_;
};

struct Case {
  std::string name, data;
};
const std::vector<Case> kCases{
    {"chat", R"("train": "chat.jsonl", "format": "chat")"},
    {"chat", R"("train": "sharegpt.jsonl", "format": "chat")"},
    {"chat_all", R"("train": "chat.jsonl", "format": "chat", "chat": {"train_on": "all"})"},
    {"prompt_completion", R"("train": "prompt_completion.jsonl", "format": "prompt_completion")"},
    {"prompt_completion_chat",
     R"("train": "prompt_completion_chat.jsonl", "format": "prompt_completion")"},
};

void check_samples(Supervised& run, const rapidjson::Value& wanted, int64_t length) {
  const TrainingData data = open_data(run.run().config.data, run.model(), run.run().files);
  REQUIRE(data.train.size() == wanted.Size());
  std::vector<int32_t> numbers(to_size(data.train.sequence_length()) + 1);
  for (rapidjson::SizeType i = 0; i < wanted.Size(); ++i) {
    CAPTURE(i);
    data.train.read(i, numbers);
    std::vector<int32_t> tokens(to_size(length)), targets(to_size(length));
    write_supervised(std::span(numbers).first(numbers.size() - 1),
                     {.tokens = tokens, .targets = targets, .positions = {}, .key_ranges = {}});
    const auto& ids = wanted[i]["input_ids"];
    const auto& labels = wanted[i]["labels"];
    for (rapidjson::SizeType t = 0; t < ids.Size(); ++t) {
      CAPTURE(t);
      CHECK(tokens[t] == ids[t].GetInt());
      const int label = t + 1 < ids.Size() ? labels[t + 1].GetInt() : -100;
      CHECK(targets[t] == (label == -100 ? -1 : label));
    }
  }
}

TEST_CASE("examples have the tokens and labels of TRL", "[train]") {
  for (const Case& each : kCases) {
    if (each.name == "chat_all") continue;
    CAPTURE(each.data);
    Supervised run(each.data, 4, 1);
    check_samples(run, run.wanted(each.name)["samples"], 96);
  }
  Supervised cut(kCases[0].data, 4, 1);
  cut.run().config.data.sequence_length = 48;
  check_samples(cut, cut.wanted("chat_truncated")["samples"], 48);
}

TEST_CASE("whose messages are learnt has to be somebody", "[train]") {
  const auto [chat, why] = GENERATE(table<std::string, std::string>({
      {R"({"train_on": []})", "nobody's messages are learnt"},
      {R"({"train_on": "asistant"})", "\"asistant\" is none of system"},
      {R"({"train_on": ["all", "user"]})", "give it alone"},
      {R"({"train_on": "all", "train_on_eos": "none"})", "without train_on_eos"},
  }));
  CAPTURE(chat);
  Supervised run(kCases[0].data + R"(, "chat": )" + chat, 4, 1);
  CHECK_THROWS_WITH(run.samples(), Catch::Contains("data.chat.train_on: ") && Catch::Contains(why));
}

TEST_CASE("examples train as TRL's SFTTrainer trains them", "[train]") {
  for (const Case& each : kCases) {
    Supervised run(each.data, 4, 10);
    const auto& wanted = run.wanted(each.name);
    for (const Shares& share :
         {Shares{}, Shares{.micro_steps = 4}, Shares{.ranks = 2, .stage = 2, .micro_steps = 2},
          Shares{.ranks = 4, .stage = 3}}) {
      CAPTURE(each.data, share.ranks, share.stage, share.micro_steps);
      const Got got = run.train(share);
      REQUIRE(got.losses.size() == 10);
      for (rapidjson::SizeType step = 0; step < 10; ++step) {
        CAPTURE(step);
        CHECK(got.losses[step] == Approx(wanted["losses"][step].GetDouble()).epsilon(1e-6));
        CHECK(got.norms[step] == Approx(wanted["grad_norms"][step].GetDouble()).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("packed examples train as padded ones do, on any mesh", "[train]") {
  // A step has all of them, so that it matters to none with which others it comes.
  const std::string data = R"("train": "chat.jsonl", "format": "chat")";
  Supervised padded(data, 24, 4);
  const Got wanted = padded.train({});
  Supervised packed(data + R"(, "packing": true)", 1, 4);
  packed.run().config.data.sequence_length = 100;
  const int64_t samples = packed.samples();
  REQUIRE(samples == 12);
  packed.run().config.train_batch_size = samples;
  for (const Shares& share :
       {Shares{}, Shares{.micro_steps = 3}, Shares{.ranks = 2, .stage = 1, .micro_steps = 2},
        Shares{.ranks = 4, .stage = 3}, Shares{.ranks = 2, .sizes = {.tensor = 2}},
        Shares{.ranks = 2, .stage = 1, .sizes = {.sequence = 2}},
        Shares{.ranks = 2, .sizes = {.sequence = 2, .ring = 2}},
        Shares{.ranks = 2, .micro_steps = 2, .sizes = {.pipe = 2}}}) {
    CAPTURE(share.ranks, share.stage, share.micro_steps, share.sizes.tensor, share.sizes.sequence,
            share.sizes.ring, share.sizes.pipe);
    const Got got = packed.train(share);
    REQUIRE(got.losses.size() == wanted.losses.size());
    for (size_t step = 0; step < got.losses.size(); ++step) {
      CAPTURE(step);
      CHECK(got.losses[step] == Approx(wanted.losses[step]).epsilon(1e-6));
      CHECK(got.norms[step] == Approx(wanted.norms[step]).epsilon(1e-5));
    }
  }
}

}  // namespace
}  // namespace ds
