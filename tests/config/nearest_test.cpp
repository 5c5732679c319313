// What somebody may have meant: every slip of one letter finds its name, longer names are found by
// their words, and names that are nothing like any other get no advice.
#include "config/reader/nearest.h"

#include "tests/support/catch.h"

namespace ds {

namespace {

const std::vector<std::string> kKeys = {"train_batch_size",
                                        "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps",
                                        "gradient_clipping",
                                        "zero_optimization",
                                        "stage",
                                        "steps_per_print",
                                        "scheduler",
                                        "optimizer",
                                        "bf16",
                                        "fp16",
                                        "wall_clock_breakdown"};

// Every text that is one letter put in, left out or replaced, or one exchange away.
std::vector<std::string> slips_of(const std::string& name) {
  std::vector<std::string> slips;
  for (size_t i = 0; i <= name.size(); ++i) {
    slips.push_back(name.substr(0, i) + "q" + name.substr(i));
    if (i == name.size()) break;
    slips.push_back(name.substr(0, i) + name.substr(i + 1));
    slips.push_back(name.substr(0, i) + "Q" + name.substr(i + 1));
    if (i + 1 == name.size()) break;
    slips.push_back(name.substr(0, i) + name[i + 1] + name[i] + name.substr(i + 2));
  }
  return slips;
}

}  // namespace

TEST_CASE("every slip of one letter finds the name that was meant", "[config]") {
  for (const std::string& name : kKeys) {
    if (name == "bf16" || name == "fp16") continue;  // "f16" is as near to both
    for (const std::string& slip : slips_of(name)) {
      CAPTURE(slip);
      CHECK(nearest_name(slip, kKeys) == name);
    }
  }
}

TEST_CASE("an exchange of neighbours counts as one slip, so that two of them are near",
          "[config]") {
  CHECK(nearest_name("schedluer", kKeys) == "scheduler");
  CHECK(nearest_name("cshedluer", kKeys) == "scheduler");
  CHECK(nearest_name("tsage", {"stage"}) == "stage");
}

TEST_CASE("a name is found by the words of it that were written", "[config]") {
  CHECK(nearest_name("micro_batch_size", kKeys) == "train_micro_batch_size_per_gpu");
  CHECK(nearest_name("size_batch", kKeys) == "train_batch_size");
  CHECK(nearest_name("clipping", kKeys) == "gradient_clipping");
  CHECK(nearest_name("accumulation_steps", kKeys) == "gradient_accumulation_steps");
  // If several have all the words, the shortest is the nearest.
  CHECK(nearest_name("batch_size", kKeys) == "train_batch_size");
  CHECK(nearest_name("batch_size", {"a_batch_size_of_b", "x_batch_size"}) == "x_batch_size");
}

TEST_CASE("a slip comes before words", "[config]") {
  CHECK(nearest_name("stages", {"stage", "number_of_stages"}) == "stage");
}

TEST_CASE("words of up to three letters stand in too many names", "[config]") {
  CHECK(nearest_name("gpu", {"train_micro_batch_size_per_gpu"}).empty());
  CHECK(nearest_name("step", {"the_step_of_it"}) == "the_step_of_it");
}

TEST_CASE("nothing is advised where nothing is near", "[config]") {
  for (const char* name : {"", "x", "learning", "completely_different", "momentum"}) {
    CAPTURE(name);
    CHECK(nearest_name(name, kKeys).empty());
  }
  CHECK(nearest_name("stage", {}).empty());
}

TEST_CASE("of a short name at most half may be wrong", "[config]") {
  CHECK(nearest_name("lr", {"lx"}) == "lx");
  CHECK(nearest_name("lr", {"xy"}).empty());
  CHECK(nearest_name("lrs", {"lxy"}) == "lxy");
  CHECK(nearest_name("a", {"b"}) == "b");
  CHECK(nearest_name("a", {"bcd"}).empty());
}

TEST_CASE("a third of a long name may be wrong", "[config]") {
  CHECK(nearest_name("abcdefghi", {"abcdefXYZ"}) == "abcdefXYZ");
  CHECK(nearest_name("abcdefghi", {"abcdeWXYZ"}).empty());
}

TEST_CASE("the first of two that are equally near is advised", "[config]") {
  CHECK(nearest_name("bat", {"cat", "hat"}) == "cat");
  CHECK(nearest_name("bat", {"hat", "cat"}) == "hat");
}

TEST_CASE("names of more than a hundred letters are near to nothing", "[config]") {
  const std::string hundred(100, 'a');
  CHECK(nearest_name(hundred, {hundred}) == hundred);
  CHECK(nearest_name(hundred + "a", {hundred + "a"}).empty());
  CHECK(misspelt_name(hundred, {hundred}) == hundred);
  CHECK(misspelt_name(hundred + "a", {hundred + "a"}).empty());
}

TEST_CASE("of a value one letter in four may be wrong", "[config]") {
  const std::vector<std::string> types = {"Adam", "AdamW", "Lion", "Adagrad", "SGD", "Lamb"};
  CHECK(misspelt_name("Adma", types) == "Adam");
  CHECK(misspelt_name("Lino", types) == "Lion");
  CHECK(misspelt_name("Adagard", types) == "Adagrad");
  CHECK(misspelt_name("sgd", types).empty());
  CHECK(misspelt_name("SDG", types).empty());  // three letters allow no slip
  CHECK(misspelt_name("Lxxn", types).empty());
  CHECK(misspelt_name("AdamW", types) == "AdamW");
}

TEST_CASE("keys of other programs are slips for none, and shortened or misspelt ones are",
          "[config]") {
  for (const auto& [key, meant] : std::vector<std::pair<const char*, const char*>>{
           {"gradient_cliping", "gradient_clipping"},
           {"gradient_clip", "gradient_clipping"},
           {"Gradient_Clipping", "gradient_clipping"},
           {"gradient-clipping", "gradient_clipping"},
           {"gradient_accumulate_step", "gradient_accumulation_steps"},
           {"stagee", "stage"},
           {"sheduler", "scheduler"},
           {"FP16", "fp16"},
           {"stage", "stage"},
           {"gradient_", ""},
           {"optim", ""},
           {"fp8", ""},
           {"save", ""},
           {"batch_size", ""},
           {"train_iters", ""},
           {"wall_clock", ""},
           {"steps_per_epoch", ""}}) {
    CAPTURE(key);
    CHECK(slip_of_key(key, kKeys) == meant);
  }
  CHECK(slip_of_key(std::string(200, 'a'), {std::string(200, 'a')}).empty());
}

}  // namespace ds
