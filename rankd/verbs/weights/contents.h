// What a file of weights or of a checkpoint holds, as a list that can be shown: tensors and other
// values, each by its way from the top, "optimizer.state[0].exp_avg" (pure).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/reader/value.h"
#include "core/torch/torch_file.h"
#include "model/hf/safetensors.h"

namespace ds {

struct FileContents {
  struct Tensor {
    std::string name;
    std::string dtype;  // as the format names it
    std::vector<int64_t> shape;
    int64_t bytes = 0;
    std::string shares{};  // the first tensor before it whose memory it has, if any
  };
  struct Item {
    std::string name;
    std::string type;  // "int", "text", "dict", or the class of an object
    Value value;       // null where there is no short one
  };
  std::string format{};
  int64_t tensor_bytes = 0;  // each byte once
  std::vector<Tensor> tensors{};
  std::vector<Item> items{};
};

FileContents contents_of(const TorchFile& file);
FileContents contents_of(const SafetensorsFile& file);

// As a page for people, and as JSON for programs.
std::string contents_text(const FileContents& contents);
Value contents_json(const FileContents& contents);

}  // namespace ds
