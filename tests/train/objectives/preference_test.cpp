// Preference training: from pairs of answers to the tokens, log probabilities, losses and rewards
// that TRL's DPOTrainer, ORPOTrainer and CPOTrainer have of them (tests/golden/preference).
#include <mutex>

#include "tests/train/objectives/golden_folder.h"
#include "train/beginning.h"
#include "train/reference/run_reference.h"
#include "train/samples/supervised_data.h"
#include "train/settings/preference_settings.h"

namespace ds {
namespace {

using namespace testing;

const std::string kTrl = source_directory() + "/tests/golden/preference";
const std::string kModel = source_directory() + "/tests/golden/supervised/model";
constexpr int64_t kLength = 200;

std::string settings(const std::string& file, const std::string& more) {
  return fmt::format(
      R"({{"model": ".", "train_batch_size": 4, "train": {{"steps": 5, "seed": 1}},
           "optimizer": {{"type": "AdamW", "params": {{"lr": 2e-3, "weight_decay": 0}}}},
           "gradient_clipping": 0,
           "data": {{"train": "/golden/{}.jsonl", "format": "preference", "order": "sequential",
                     "sequence_length": {}}}{}}})",
      file, kLength, more);
}

class Preferring {
 public:
  explicit Preferring(const std::string& file, const std::string& more = "")
      : run_(kModel, parse_config(settings(file, more))) {
    run_.copy_from(kTrl);
    for (const std::string name : {"adapter", "reference"}) copy_folder(name);
    run_.golden.Parse(run_.files.read_text("/golden/expected.json", 1 << 20).c_str());
    REQUIRE_FALSE(run_.golden.HasParseError());
    if (run_.config.lora) run_.config.lora->adapter = "/golden/adapter";
    model_ = model_config(run_.config, run_.files);
    data_ = open_data(run_.config.data, model_, run_.files);
  }

  Got train(const Shares& share) {
    return train_folder(
        run_, share,
        {.source =
             [&](const SamplePlace& place, const BatchShape& batch) {
               return make_sample_source(data_->train, in_order(), batch, place,
                                         {.rules = data_->rules, .reference = &references_.train});
             },
         .prepare = [&](Engine& engine, const SamplePlace& place) { ask(engine, place); }});
  }
  // With a loss that has no reference, of which nobody is to be asked.
  Got train_alone(const Shares& share) {
    return train_folder(run_, share,
                        {.source =
                             [&](const SamplePlace& place, const BatchShape& batch) {
                               return make_sample_source(data_->train, in_order(), batch, place,
                                                         {.rules = data_->rules});
                             },
                         .prepare =
                             [&](Engine& engine, const SamplePlace&) {
                               CHECK_FALSE(asks_reference(run_.config));
                               CHECK_FALSE(engine.batches().largest().has(batch_field::kReference));
                             }});
  }
  // What the reference says, asked on so many ranks.
  ReferenceScores scores(const Shares& share, int64_t steps = 5) {
    steps_ = steps;
    run_.config.train.steps = 0;
    train_folder(
        run_, share,
        {.source = [](const SamplePlace&,
                      const BatchShape&) { return std::unique_ptr<BatchSource>(); },
         .prepare = [&](Engine& engine, const SamplePlace& place) { ask(engine, place); }});
    return references_.train;
  }
  const SampleSet& samples() const { return data_->train; }
  const rapidjson::Value& wanted(const char* section, const std::string& name) const {
    return run_.golden[section][name.c_str()];
  }
  GoldenFolder& run() { return run_; }

 private:
  Sampler in_order() const { return {data_->train.size(), SampleOrder::kSequential, 0}; }
  static RunReferences unasked(int64_t samples) {
    return {.train = ReferenceScores(samples), .validation = ReferenceScores(0)};
  }
  void ask(Engine& engine, const SamplePlace& place) {
    RunReferences own = unasked(data_->train.size());
    RunReference run{.path = "/reference.bin", .facts = "of a test", .place = place};
    run.model = run_.folder;
    if (run_.config.preference) run.folder = run_.config.preference->reference;
    run.train = {.samples = &data_->train,
                 .wanted = samples_of_steps(in_order(), 4, 0, steps_, data_->train.size())};
    const FilledReferences filled = fill_references(engine, run_.files, run, 0, own);
    CHECK(filled.notices.empty());
    CHECK((filled.weights == WeightsAfter::kOther) == run.folder.has_value());
    if (run.folder) begin_training(engine, run_.files, {.folder = run_.folder});
    // All ranks have the same; others may read by now what the first one has put there.
    std::call_once(filled_, [&] { references_ = own; });
  }
  void copy_folder(const std::string& name) {
    RealFileSystem disk;
    run_.files.make_directories(fmt::format("/golden/{}", name));
    for (const DirectoryEntry& entry : disk.list(fmt::format("{}/{}", kTrl, name))) {
      const auto from = disk.open(fmt::format("{}/{}/{}", kTrl, name, entry.name));
      std::vector<std::byte> bytes(to_size(from->size()));
      from->read(0, bytes);
      run_.files.create(fmt::format("/golden/{}/{}", name, entry.name))->append(bytes);
    }
  }

  GoldenFolder run_;
  ModelConfig model_;
  std::optional<TrainingData> data_;
  int64_t steps_ = 5;  // about whose samples the reference is asked
  std::once_flag filled_;
  RunReferences references_ = unasked(0);
};

void check_text(const rapidjson::Value& wanted, std::span<const int32_t> tokens,
                std::span<const int32_t> targets) {
  const auto& ids = wanted["ids"];
  const auto& mask = wanted["mask"];
  for (rapidjson::SizeType t = 0; t < ids.Size(); ++t) {
    CAPTURE(t);
    CHECK(tokens[t] == ids[t].GetInt());
    const bool is_learnt = t + 1 < ids.Size() && mask[t + 1].GetInt() == 1;
    CHECK(targets[t] == (is_learnt ? ids[t + 1].GetInt() : -1));
  }
}

TEST_CASE("pairs have the tokens of TRL, one text behind the other", "[train]") {
  for (const std::string file :
       {"pairs_text", "pairs_chat", "pairs_implicit", "pairs_implicit_text"}) {
    const Preferring run(file);
    const auto& wanted = run.wanted("samples", file);
    REQUIRE(run.samples().size() == wanted.Size());
    std::vector<int32_t> numbers(to_size(run.samples().sequence_length()) + 1);
    for (rapidjson::SizeType i = 0; i < wanted.Size(); ++i) {
      CAPTURE(file, i);
      run.samples().read(i, numbers);
      std::vector<int32_t> tokens(kLength), targets(kLength), sides(kLength);
      write_supervised(std::span(numbers).first(numbers.size() - 1), {.tokens = tokens,
                                                                      .targets = targets,
                                                                      .positions = {},
                                                                      .key_ranges = {},
                                                                      .sides = sides});
      const size_t first = wanted[i]["chosen"]["ids"].Size();
      const size_t second = wanted[i]["rejected"]["ids"].Size();
      check_text(wanted[i]["chosen"], tokens, targets);
      check_text(wanted[i]["rejected"], std::span(tokens).subspan(first),
                 std::span(targets).subspan(first));
      for (size_t t = 0; t < to_size(kLength); ++t) {
        const int side = t < first ? 1 : t < first + second ? -1 : 0;
        CHECK(sides[t] == (targets[t] < 0 ? 0 : side));
      }
    }
  }
}

const std::vector<Shares> kMeshes{{},
                                  {.micro_steps = 4},
                                  {.ranks = 2, .stage = 2, .micro_steps = 2},
                                  {.ranks = 4, .stage = 3},
                                  {.ranks = 2, .sizes = {.tensor = 2}},
                                  {.ranks = 4, .stage = 1, .sizes = {.tensor = 2}},
                                  {.ranks = 2, .stage = 1, .sizes = {.sequence = 2}},
                                  {.ranks = 2, .sizes = {.sequence = 2, .ring = 2}},
                                  {.ranks = 2, .micro_steps = 2, .sizes = {.pipe = 2}}};

TEST_CASE("a reference has TRL's log probabilities, on any mesh", "[train]") {
  for (const std::string file : {"pairs_text", "pairs_chat", "pairs_implicit_text"}) {
    for (const Shares& share : kMeshes) {
      CAPTURE(file, share.ranks, share.stage, share.sizes.tensor, share.sizes.sequence);
      Preferring run(file);
      const ReferenceScores got = run.scores(share);
      const auto& wanted = run.wanted("references", "../supervised/model")[file.c_str()];
      for (rapidjson::SizeType i = 0; i < run.samples().size(); ++i) {
        CHECK(got.of(i)[0] == Approx(wanted["chosen"][i].GetDouble()).epsilon(1e-6));
        CHECK(got.of(i)[1] == Approx(wanted["rejected"][i].GetDouble()).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("what a reference says of a pair does not depend on what else it is asked", "[train]") {
  Preferring all("pairs_chat"), some("pairs_chat");
  const ReferenceScores of_all = all.scores({.micro_steps = 2});
  const ReferenceScores of_some = some.scores({.micro_steps = 2}, 1);
  int64_t known = 0;
  for (int64_t i = 0; i < all.samples().size(); ++i) {
    if (!of_some.knows(i)) continue;
    ++known;
    CHECK(of_some.of(i) == of_all.of(i));
  }
  CHECK(known == 4);
}

void check_steps(const Got& got, const rapidjson::Value& wanted) {
  REQUIRE(got.losses.size() == 5);
  for (rapidjson::SizeType step = 0; step < 5; ++step) {
    CAPTURE(step);
    const auto number = [&](const char* name) { return wanted[name][step].GetDouble(); };
    CHECK(got.losses[step] == Approx(number("loss_fp64")).epsilon(1e-5));
    CHECK(got.norms[step] == Approx(number("grad_norm_fp64")).epsilon(2e-4));
    const Metrics& metrics = got.steps[step];
    CHECK(metrics.at("reward_chosen") == Approx(number("rewards/chosen")).margin(1e-4));
    CHECK(metrics.at("reward_rejected") == Approx(number("rewards/rejected")).margin(1e-4));
    CHECK(metrics.at("reward_margin") == Approx(number("rewards/margins")).margin(1e-4));
    CHECK(metrics.at("reward_accuracy") == Approx(number("rewards/accuracies")));
  }
}

TEST_CASE("pairs train as TRL's DPOTrainer trains them, on any mesh", "[train]") {
  for (const Shares& share : kMeshes) {
    CAPTURE(share.ranks, share.stage, share.micro_steps, share.sizes.tensor, share.sizes.sequence,
            share.sizes.ring, share.sizes.pipe);
    Preferring chats("pairs_chat");
    check_steps(chats.train(share), chats.wanted("runs", "sigmoid"));
    Preferring texts("pairs_text");
    check_steps(texts.train(share), texts.wanted("runs", "sigmoid_text"));
  }
}

TEST_CASE("each loss of pairs trains as TRL's", "[train]") {
  const std::string name =
      GENERATE(as<std::string>(), "sigmoid_norm", "hinge", "ipo", "exo_pair", "nca_pair", "robust",
               "bco_pair", "sppo_hard", "apo_zero", "apo_down", "discopop");
  const bool smooths = name == "exo_pair" || name == "robust";
  CAPTURE(name);
  Preferring run("pairs_chat",
                 fmt::format(R"(, "preference": {{"loss_type": "{}", "label_smoothing": {}}})",
                             name, smooths ? 0.1 : 0.0));
  check_steps(run.train({.ranks = 2, .stage = 2}), run.wanted("runs", name));
}

// The likelihood is a mean over the tokens of a micro-batch, as TRL has it: what a run loses
// depends on how many pairs share one.
std::string run_of_micro_batch(const std::string& loss, const Shares& share) {
  const MeshSizes& sizes = share.sizes;
  const int64_t data = share.ranks / (sizes.tensor * sizes.sequence * sizes.pipe);
  const int64_t pairs = 4 / (data * share.micro_steps);
  return pairs == 4 ? loss : fmt::format("{}_by_{}", loss, pairs);
}

TEST_CASE("pairs train without a reference as TRL's trainers train them, on any mesh", "[train]") {
  const std::string loss = GENERATE(as<std::string>(), "orpo", "simpo", "cpo");
  const std::string rule = fmt::format(R"(, "preference": {{"loss_type": "{}"}})", loss);
  for (const Shares& share : kMeshes) {
    const std::string name = run_of_micro_batch(loss, share);
    CAPTURE(name, share.ranks, share.stage, share.micro_steps, share.sizes.tensor,
            share.sizes.sequence, share.sizes.ring, share.sizes.pipe);
    Preferring run("pairs_chat", rule);
    check_steps(run.train_alone(share), run.wanted("runs", name));
  }
  Preferring texts("pairs_text", rule);
  check_steps(texts.train_alone({}), texts.wanted("runs", loss + "_text"));
}

TEST_CASE("what is said of losses without a reference is what TRL makes of it", "[train]") {
  const auto [name, rule] = GENERATE(table<std::string, std::string>({
      {"orpo_beta", R"("loss_type": "orpo", "beta": 0.5)"},
      {"simpo_alone", R"("loss_type": "simpo", "beta": 2, "cpo_alpha": 0, "simpo_gamma": 1)"},
      {"cpo_smoothed", R"("loss_type": "cpo", "cpo_alpha": 0.25, "label_smoothing": 0.1)"},
  }));
  CAPTURE(name);
  Preferring run("pairs_chat", fmt::format(R"(, "preference": {{{}}})", rule));
  check_steps(run.train_alone({.ranks = 2, .sizes = {.tensor = 2}}), run.wanted("runs", name));
}

TEST_CASE("adapters learn from pairs without a reference", "[train]") {
  for (const Shares& share : {Shares{}, Shares{.ranks = 2, .sizes = {.sequence = 2}}}) {
    Preferring run(
        "pairs_chat",
        R"(, "preference": {"loss_type": "orpo"}, "lora": {"adapter": "/golden/adapter"})");
    check_steps(run.train_alone(share), run.wanted("runs", "orpo_lora"));
  }
}

TEST_CASE("adapters learn from pairs, and their base is the reference", "[train]") {
  for (const Shares& share : {Shares{}, Shares{.ranks = 2, .stage = 3}}) {
    Preferring run("pairs_chat", R"(, "lora": {"adapter": "/golden/adapter"})");
    check_steps(run.train(share), run.wanted("runs", "sigmoid_lora"));
  }
}

TEST_CASE("a reference may be a model of its own, of the same kind", "[train]") {
  const std::string own = R"(, "preference": {"reference": "/golden/reference"})";
  for (const Shares& share : {Shares{}, Shares{.ranks = 2, .stage = 3}}) {
    Preferring run("pairs_chat", own);
    check_steps(run.train(share), run.wanted("runs", "sigmoid_reference"));
  }
  Preferring run("pairs_chat", own);
  std::string other = run.run().files.read_text("/golden/reference/config.json", 1 << 16);
  const std::string key = "\"rms_norm_eps\": ";
  other.insert(other.find(key) + key.size(), "1");
  run.run().files.write_text_atomically("/golden/reference/config.json", other);
  CHECK_THROWS_WITH(run.train({}),
                    Catch::Contains("preference.reference: ") && Catch::Contains("rms_norm_eps"));
}

}  // namespace
}  // namespace ds
