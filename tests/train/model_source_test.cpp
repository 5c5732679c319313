// What `generate` and `eval` open: adapters with the model that they belong to.
#include "train/model_source.h"

#include <functional>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/adapter_folder.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"
#include "train/convert/convert.h"

namespace ds {
namespace {

const std::string& base() {
  static const std::string folder = testing::source_directory() + "/tests/golden/supervised/model";
  return folder;
}

// What an error of the kind says; others go through.
template <class Kind>
std::string refusal_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing was refused";
}

std::vector<float> scores_of(const ModelSource& source) {
  LoadedModel loaded(source, DType::kF32, ModelPlace{});
  const std::vector<int32_t> ids{5, 17, 300, 2, 44};
  Tensor tokens = Tensor::empty({1, 5}, DType::kI32, loaded.stream());
  loaded.stream().copy(ids.data(), tokens.address(), tokens.bytes());
  Context context = loaded.context();
  const Tensor scores = loaded.model().next_logits(context, tokens);
  std::vector<float> values(to_size(scores.numel()));
  loaded.stream().copy(scores.address(), values.data(), scores.bytes());
  return values;
}

float farthest(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float apart = 0;
  for (size_t i = 0; i < a.size(); ++i) apart = std::max(apart, std::abs(a[i] - b[i]));
  return apart;
}

TEST_CASE("adapters beside their model say what the merged model says", "[train]") {
  RealFileSystem files;
  const testing::TemporaryDirectory root;
  const std::string adapters = root.path() / "adapters", merged = root.path() / "merged";
  testing::write_adapters(files,
                          {.folder = adapters, .base = base(), .named_base = "elsewhere/it"});
  CHECK_THAT(refusal_of<InputMissing>([&] { open_model_source(files, {adapters}); }),
             (Catch::Contains("elsewhere/it") && Catch::Contains("--base")));
  const ModelSource source = open_model_source(files, {adapters, base()});
  CHECK(source.tokenizer == base());
  convert(files, {.source = adapters, .destination = merged, .base = base()});
  const std::vector<float> scores = scores_of(source);
  CHECK(farthest(scores, scores_of(open_model_source(files, {merged}))) < 1e-4F);
  CHECK(farthest(scores, scores_of(open_model_source(files, {base()}))) > 1e-2F);
}

TEST_CASE("a base is refused where there are no adapters, and adapters of others by name",
          "[train]") {
  RealFileSystem files;
  const testing::TemporaryDirectory root;
  for (const std::string& source : {base(), root.path().string()}) {
    CHECK_THAT(refusal_of<UsageError>([&] {
                 open_model_source(files, {source, base()});
               }),
               Catch::Contains("is no folder of adapters"));
  }
  const std::string adapters = root.path() / "adapters";
  testing::write_adapters(files, {.folder = adapters, .base = base()});
  const std::string other = testing::source_directory() + "/tests/golden/families/qwen2";
  const ModelSource wrong = open_model_source(files, {adapters, other});
  CHECK_THAT(refusal_of<DataError>([&] { scores_of(wrong); }),
             Catch::Contains("adapter_model.safetensors"));
}

}  // namespace
}  // namespace ds
