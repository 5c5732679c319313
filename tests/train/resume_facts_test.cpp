#include "train/settings/resume_facts.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Words = std::vector<std::string>;

RunFacts facts() {
  return {.model = R"({"model_type": "gpt2", "n_layer": 2, "attn_pdrop": 0.1, "bos_token_id": 1})",
          .config = R"({"train": {"seed": 1, "steps": 10}, "bf16": {"enabled": false}})",
          .data = "0123",
          .seed = 1,
          .global_batch = 8,
          .sequence_length = 16,
          .order = "shuffled",
          .saved_at = 1795344000};
}

// Tokens that count up, from a start.
class Counting final : public TokenSource {
 public:
  Counting(int64_t size, int64_t changed = -1) : size_(size), changed_(changed) {}
  int64_t size() const override { return size_; }
  void read(int64_t offset, std::span<int32_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t at = offset + static_cast<int64_t>(i);
      out[i] = static_cast<int32_t>(at == changed_ ? 99 : at % 50);
    }
  }
  std::string locate(int64_t) const override { return "here"; }

 private:
  const int64_t size_;
  const int64_t changed_;
};

std::string digest(int64_t tokens, int64_t length, int64_t changed = -1) {
  return digest_of(SampleSet({std::make_shared<Counting>(tokens, changed)}, length, 100));
}

}  // namespace

TEST_CASE("facts are text and back", "[rankd]") {
  const RunFacts one = facts();
  const RunFacts back = parse_facts(to_text(one));
  CHECK(back.model == one.model);
  CHECK(back.config == one.config);
  CHECK(back.saved_at == one.saved_at);
  CHECK(back.order == one.order);
  CHECK(back.teacher.empty());
  CHECK(back.base.empty());
  for (const char* const bad : {"", "[]", "{}", R"({"model": 1})", "\xff"})
    CHECK_THROWS_AS(parse_facts(bad), ValidationError);
}

TEST_CASE("weights beside those that train are known again", "[rankd]") {
  RunFacts saved = facts();
  CHECK(compare(saved, facts()).exact.empty());
  saved.teacher = "aa";
  saved.base = "bb";
  CHECK(parse_facts(to_text(saved)).teacher == "aa");
  CHECK(parse_facts(to_text(saved)).base == "bb");
  CHECK(compare(saved, saved).exact.empty());
  RunFacts now = saved;
  now.teacher = "cc";
  CHECK(compare(saved, now).exact == Words{"the weights of the teacher are others"});
  now.teacher.clear();
  CHECK(compare(saved, now).exact == Words{"it had a teacher and has none"});
  CHECK(compare(now, saved).exact == Words{"it had no teacher and has one"});
  now = saved;
  now.base = "cc";
  CHECK(compare(saved, now).exact ==
        Words{"the weights of model.folder, which adapters are beside, are others"});
  now.base.clear();  // releases before did not say it
  CHECK(compare(saved, now).exact.empty());
  CHECK(compare(now, saved).exact.empty());
}

TEST_CASE("that masters were others says what becomes of the weights", "[rankd]") {
  RunFacts later = facts();
  later.config = R"({"train": {"seed": 1, "steps": 10},
      "bf16": {"enabled": false, "bf16_master_weights_and_grads": true}})";
  CHECK(
      compare(facts(), later).other ==
      Words{"bf16.bf16_master_weights_and_grads was nothing and is true (weights go on from those "
            "that were saved, rounded once where they are kept in fewer bits now)"});
}

TEST_CASE("equal runs have no changes", "[rankd]") {
  RunFacts later = facts();
  later.saved_at += 100;
  const FactChanges changes = compare(facts(), later);
  CHECK(changes.model.empty());
  CHECK(changes.exact.empty());
  CHECK(changes.other.empty());
}

TEST_CASE("a model that another release wrote in other keys is the same", "[rankd]") {
  RunFacts saved = facts(), now = facts();
  saved.model = R"({"model_type": "olmo3", "hidden_size": 64, "rope_theta": 500000.0,
      "rope_scaling": {"rope_type": "linear", "factor": 2.0}})";
  now.model = R"({"model_type": "olmo3", "hidden_size": 64, "rope_theta": 500000.0,
      "rope_parameters": {
          "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500000.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}})";
  CHECK(compare(saved, now).model.empty());
  now.model.replace(now.model.find("64"), 2, "128");
  CHECK(compare(saved, now).model == Words{"hidden_size was 64 and is 128"});
}

TEST_CASE("each change is what it is: of the model, of what is exact, or of the rest", "[rankd]") {
  RunFacts now = facts();
  now.model = R"({"model_type": "gpt2", "n_layer": 3, "attn_pdrop": 0.2, "bos_token_id": 7})";
  now.config = R"({"train": {"seed": 9, "steps": 20}, "bf16": {"enabled": true}, "fp16": {}})";
  now.seed = 9;
  now.global_batch = 16;
  now.sequence_length = 8;
  now.order = "sequential";
  now.data = "4567";
  const FactChanges changes = compare(facts(), now);
  CHECK(changes.model == Words{"n_layer was 2 and is 3"});
  CHECK(changes.exact == Words{"attn_pdrop was 0.1 and is 0.2", "the seed was 1 and is 9",
                               "the global batch size was 8 and is 16",
                               "the sequence length was 16 and is 8",
                               "the order of samples was shuffled and is sequential",
                               "the training data are others"});
  CHECK(changes.other ==
        Words{"bf16.enabled was false and is true", "train.steps was 10 and is 20"});
}

TEST_CASE("other adapters are another model", "[rankd]") {
  RunFacts before = facts();
  before.config = R"({"lora": {"r": 8, "lora_alpha": 8, "lora_dropout": 0, "adapter": null}})";
  const auto with = [&](const std::string& lora) {
    RunFacts now = before;
    now.config = fmt::format(R"({{"lora": {}}})", lora);
    return compare(before, now);
  };
  const std::string same = R"("r": 8, "lora_alpha": 8)";
  CHECK(with(R"({"r": 8, "lora_alpha": 16, "lora_dropout": 0, "adapter": null})").model ==
        Words{"lora.lora_alpha was 8 and is 16"});
  const FactChanges drops = with("{" + same + R"(, "lora_dropout": 0.5, "adapter": null})");
  CHECK(drops.model.empty());
  CHECK(drops.exact == Words{"lora.lora_dropout was 0 and is 0.5"});
  const FactChanges begun = with("{" + same + R"(, "lora_dropout": 0, "adapter": "a"})");
  CHECK(begun.model.empty());
  CHECK(begun.exact.empty());
  CHECK(begun.other.size() == 1);
  CHECK_FALSE(with("null").model.empty());
  // A release that knew no adapters names none.
  RunFacts older = facts(), now = facts();
  older.config = "{}";
  now.config = R"({"lora": null})";
  CHECK(compare(older, now).model.empty());
}

TEST_CASE("a base is the same that is kept in the same codes, in whichever words", "[rankd]") {
  const auto changes = [](const std::string& saved, const std::string& present) {
    RunFacts before = facts(), now = facts();
    before.config = fmt::format(R"({{"lora": {}}})", saved);
    now.config = fmt::format(R"({{"lora": {}}})", present);
    return compare(before, now);
  };
  const std::string nf4 = R"({"base_format": "nf4"})";
  for (const char* const same :
       {R"({"load_in_4bit": true})", R"({"base_format": "nf4", "base_block": 64})",
        R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4", "double_quantization": true})"}) {
    CAPTURE(same);
    CHECK(changes(nf4, same).model.empty());
    CHECK(changes(same, nf4).exact.empty());
  }
  // A release that knew no such bases, and what has no effect.
  CHECK(changes("{}", R"({"base_format": "model", "double_quantization": false})").model.empty());
  RunFacts foreign = facts(), now = facts();
  foreign.config = R"({"lora": {"r": "of another release"}})";
  now.config = fmt::format(R"({{"lora": {}}})", nf4);
  CHECK_FALSE(compare(foreign, now).model.empty());
  CHECK(changes("{}", nf4).model ==
        Words{"lora.base_format: the base was kept as the model's others are, and is kept nf4, "
              "4.125 bits each"});
  CHECK(changes(R"({"base_format": "nf4", "base_block": 128})", nf4).model.size() == 1);
  CHECK(changes(R"({"base_format": "nf4", "double_quantization": false})", nf4).model.size() == 1);
  CHECK(changes(R"({"base_format": "int8"})", R"({"base_format": "fp8"})").model.size() == 1);
}

TEST_CASE("blocks of a base are those of tensor-parallel ranks", "[rankd]") {
  RunFacts before = facts(), now = facts();
  before.config = R"({"lora": {"base_format": "nf4"}})";
  now.config = R"({"lora": {"base_format": "nf4"}, "tensor_parallel": {"autotp_size": 2}})";
  CHECK(compare(before, now).exact ==
        Words{"blocks of lora.base_format are those of tensor-parallel ranks, and these were 1 and "
              "are 2"});
  before.config = now.config = R"({"lora": {}})";
  now.config = R"({"lora": {}, "tensor_parallel": {"autotp_size": 2}})";
  CHECK(compare(before, now).exact.empty());
}

TEST_CASE("data are told apart by size, length of samples and every token", "[rankd]") {
  const std::string one = digest(1000, 10);
  CHECK(digest(1000, 10) == one);
  CHECK(digest(1011, 10) != one);
  CHECK(digest(1000, 20) != one);
  for (const int64_t changed : {0, 500, 989}) CHECK(digest(1000, 10, changed) != one);
}

}  // namespace ds
