#include "rankd/model_folder.h"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include <map>

#include "core/failpoint.h"
#include "core/input_files.h"
#include "model/hf_config.h"
#include "model/hf_weights.h"

namespace ds {
namespace {

// The character that byte-level BPE writes for a byte: printable bytes stand for themselves, the others
// follow from U+0100 on, in order (Radford et al., GPT-2 encoder).
uint32_t character_of(int byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  if (printable(byte)) return static_cast<uint32_t>(byte);
  uint32_t next = 0x100;
  for (int b = 0; b < byte; ++b) next += printable(b) ? 0 : 1;
  return next;
}

std::string utf8(uint32_t character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
}

std::string tokenizer_text(FileSystem& files, const std::string& tokenizer) {
  if (tokenizer == "byte") return byte_tokenizer_json();
  constexpr int64_t kLargest = 256 << 20;
  const bool is_file = tokenizer.ends_with(".json");
  return InputFiles(files).read_text(is_file ? tokenizer : tokenizer + "/tokenizer.json", kLargest);
}

// Our name of each parameter -> its name in the export.
std::map<std::string, std::string> names_of_source(FileSystem& files, const ModelExport& what) {
  std::map<std::string, std::string> names;
  if (!what.source) {
    for (const ParamSpec& spec : what.specs) names[spec.name] = spec.name;
    return names;
  }
  InputFiles inputs(files);
  const HfWeights source(inputs, *what.source, what.specs);
  for (size_t i = 0; i < what.specs.size(); ++i) {
    names[what.specs[i].name] = source.stored_name(i);
  }
  return names;
}

}  // namespace

std::string byte_tokenizer_json() {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> out(buffer);
  out.StartObject();
  out.Key("version");
  out.String("1.0");
  out.Key("added_tokens");
  out.StartArray();
  out.EndArray();
  for (const char* part : {"pre_tokenizer", "decoder"}) {
    out.Key(part);
    out.StartObject();
    out.Key("type");
    out.String("ByteLevel");
    out.Key("add_prefix_space");
    out.Bool(false);
    out.Key("trim_offsets");
    out.Bool(true);
    out.Key("use_regex");
    out.Bool(false);
    out.EndObject();
  }
  out.Key("model");
  out.StartObject();
  out.Key("type");
  out.String("BPE");
  out.Key("vocab");
  out.StartObject();
  for (int byte = 0; byte < 256; ++byte) {
    out.Key(utf8(character_of(byte)).c_str());
    out.Int(byte);
  }
  out.EndObject();
  out.Key("merges");
  out.StartArray();
  out.EndArray();
  out.EndObject();
  out.EndObject();
  return buffer.GetString();
}

void write_model_folder(FileSystem& files, const ModelExport& what, CheckpointReader& reader) {
  files.make_directories(what.folder);
  const std::map<std::string, std::string> names = names_of_source(files, what);
  std::vector<SafetensorsTensor> list = export_list(what.specs, DType::kF32);
  for (SafetensorsTensor& entry : list) entry.name = names.at(entry.name);
  const std::string weights = what.folder + "/model.safetensors";
  if (files.exists(weights)) files.remove(weights);
  SafetensorsWriter writer(files, weights, list);
  for (const SafetensorsTensor& entry : export_list(what.specs, DType::kF32)) {
    std::vector<float> values(static_cast<size_t>(entry.shape.numel()));
    Tensor into = Tensor::borrow(values.data(), {entry.shape.numel()}, DType::kF32);
    reader.get(entry.name + "/weight", Region::whole(entry.shape), into);
    DS_FAILPOINT("export.tensor");
    writer.write(names.at(entry.name), std::as_bytes(std::span(values)));
  }
  DS_FAILPOINT("export.before_finish");
  writer.finish();
  DS_FAILPOINT("export.weights_written");
  files.write_text_atomically(what.folder + "/config.json",
                              format_hf_config(what.model, DType::kF32));
  files.write_text_atomically(what.folder + "/tokenizer.json",
                              tokenizer_text(files, what.tokenizer));
}

}  // namespace ds
