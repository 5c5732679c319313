// A golden case of adapters (tests/golden/lora), and runs of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/adapters/adapter_file.h"
#include "tests/train/objectives/golden_folder.h"
#include "train/model_source.h"
#include "train/samples/supervised_data.h"

namespace ds::testing {

// A case: the model's folder with its adapters in a folder inside, and the batch as token ids.
class Adapted {
 public:
  // lora: more of that section; more: of the configuration.
  explicit Adapted(const std::string& name, const std::string& more = "",
                   const std::string& lora = "")
      : files_of_case_(golden() + "/" + name), run_(base(), parse_config(settings(more, lora))) {
    copy_adapters();
    const std::string expected = files_of_case_ + "/expected.safetensors";
    expected_.emplace(SafetensorsFolder::open(disk_, expected));
    write_batch();
    run_.golden.Parse(disk_.read_text(golden() + "/steps.json", 1 << 20).c_str());
    REQUIRE_FALSE(run_.golden.HasParseError());
    // What the model's folder has been trained to is of no interest.
    const std::string trained = run_.folder + "/final.safetensors";
    if (run_.files.exists(trained)) run_.files.remove(trained);
  }

  void open() {
    data_ = open_data(run_.config.data, model_config(run_.config, run_.files), run_.files);
  }

  std::unique_ptr<BatchSource> source(const SamplePlace& place, const BatchShape& batch) {
    return make_sample_source(data_->train,
                              Sampler(data_->train.size(), SampleOrder::kSequential, 0), batch,
                              place, {.rules = data_->rules});
  }
  Got train(const Shares& share) {
    open();
    return train_folder(run_, share,
                        {.source = [&](const SamplePlace& place, const BatchShape& batch) {
                          return source(place, batch);
                        }});
  }
  std::vector<float> expected(const std::string& name) { return values_in(*expected_, name); }
  std::vector<std::string> expected_names(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const std::string& name : expected_->names()) {
      if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
    }
    return names;
  }
  static std::vector<float> values_in(const SafetensorsFolder& folder, const std::string& name) {
    const SafetensorsInfo& info = folder.info(name);
    std::vector<float> values(to_size(info.shape.numel()));
    folder.read(name, std::as_writable_bytes(std::span(values)));
    return values;
  }
  GoldenFolder& run() { return run_; }
  const std::string& case_folder() const { return files_of_case_; }

 private:
  static std::string golden() { return source_directory() + "/tests/golden/lora"; }
  static std::string settings(const std::string& more, const std::string& lora) {
    return fmt::format(
        R"({{"model": ".", "train_batch_size": 2, "train": {{"steps": 5, "seed": 1}},
             "optimizer": {{"type": "AdamW", "params": {{"lr": 1e-2, "weight_decay": 0}}}},
             "gradient_clipping": 0, "lora": {{"adapter": "/golden/adapter"{}}},
             "data": {{"train": "/golden/batch.jsonl", "format": "tokenized",
                       "order": "sequential", "sequence_length": 12}}{}}})",
        lora, more);
  }
  std::string base() {
    return files_of_case_ + "/" + read_adapter_file(disk_, files_of_case_).base;
  }
  void copy_adapters() {
    run_.files.make_directories("/golden/adapter");
    for (const char* const name : {adapter_names::kConfig, adapter_names::kWeights}) {
      const std::string text = disk_.read_text(fmt::format("{}/{}", files_of_case_, name), 1 << 20);
      run_.files.create(fmt::format("/golden/adapter/{}", name))
          ->append(std::as_bytes(std::span(text)));
    }
  }
  void write_batch() {
    const SafetensorsInfo& info = expected_->info("tokens");
    std::vector<int32_t> tokens(to_size(info.shape.numel()));
    expected_->read("tokens", std::as_writable_bytes(std::span(tokens)));
    std::string lines;
    for (int64_t row = 0; row < info.shape[0]; ++row) {
      const auto ids =
          std::span(tokens).subspan(to_size(row * info.shape[1]), to_size(info.shape[1]));
      lines += fmt::format("{{\"input_ids\": [{}]}}\n", fmt::join(ids, ", "));
    }
    run_.files.write_text_atomically("/golden/batch.jsonl", lines);
  }

  RealFileSystem disk_;
  std::string files_of_case_;
  GoldenFolder run_;
  std::optional<TrainingData> data_;  // which sources read
  std::optional<SafetensorsFolder> expected_;
};

inline void check_steps(Adapted& adapted, const std::string& name, const Got& got) {
  const auto& wanted = adapted.run().golden[name.c_str()];
  REQUIRE(got.losses.size() == wanted["losses"].Size());
  for (rapidjson::SizeType step = 0; step < wanted["losses"].Size(); ++step) {
    CAPTURE(step);
    CHECK(got.losses[step] == Approx(wanted["losses"][step].GetDouble()).epsilon(1e-5));
    CHECK(got.norms[step] == Approx(wanted["grad_norms"][step].GetDouble()).epsilon(2e-4));
  }
}

}  // namespace ds::testing
