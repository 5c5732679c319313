// DeepSpeed's checkpoints and others as Hugging Face folders.
#include "train/convert/convert.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config/families/hf_config.h"
#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/files/crc32.h"
#include "core/files/zip_reader.h"
#include "core/status/error.h"
#include "core/torch/torch_writer.h"
#include "core/values/index.h"
#include "model/families/zoo.h"
#include "model/hf/safetensors.h"
#include "model/hf/weights.h"
#include "tests/support/catch.h"
#include "tests/support/files/unpack.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

std::string fixture(const std::string& name) {
  return testing::source_directory() + "/tests/golden/deepspeed/" + name;
}

class Place {
 public:
  Place() {
    std::string pattern = (fs::temp_directory_path() / "convert_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Place(const Place&) = delete;  // removes the folder
  Place& operator=(const Place&) = delete;
  ~Place() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_))
      names.push_back(entry.path().filename());
    return names;
  }

 private:
  fs::path path_;
};

Converted converted(const Conversion& what) {
  RealFileSystem files;
  return convert(files, what);
}

// Changes a byte in the middle of each storage of a file of PyTorch's.
void damage_storages(const std::string& path) {
  RealFileSystem files;
  std::string text = files.read_text(path, 1 << 24);
  const std::string whole = text;
  const ZipReader zip(path, std::as_bytes(std::span(whole)));
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.name.find("/data/") == std::string_view::npos || entry.bytes == 0) continue;
    text[to_size(entry.offset + entry.bytes / 2)] ^= 1;
  }
  REQUIRE(text != whole);
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::byte> bytes_of(const SafetensorsFolder& folder, const std::string& name) {
  std::vector<std::byte> bytes(to_size(folder.info(name).bytes));
  folder.read(name, bytes);
  return bytes;
}

void check_equal(const std::string& folder, const std::string& name) {
  RealFileSystem files;
  const SafetensorsFolder made = SafetensorsFolder::open(files, folder);
  const SafetensorsFolder wanted =
      SafetensorsFolder::open(files, fixture(name + "/consolidated.safetensors"));
  for (const std::string& tensor : made.names()) {
    CAPTURE(tensor);
    CHECK(made.info(tensor).shape == wanted.info(tensor).shape);
    CHECK(bytes_of(made, tensor) == bytes_of(wanted, tensor));
  }
  // A tied head is left out, as transformers leaves it out.
  CHECK(made.names().size() + (wanted.contains("transformer.wte.weight") ? 1 : 0) ==
        wanted.names().size());
}

TEST_CASE("a checkpoint of DeepSpeed becomes a folder with the same fp32 weights", "[train]") {
  for (const auto& [name, config] : {std::pair("zero2_fp32", "zero2_fp32"),
                                     {"zero3_bf16", "zero2_fp32"},
                                     {"zero2_frozen", "zero2_frozen"}}) {
    CAPTURE(name);
    const Place place;
    const Converted done = converted(
        {.source = fixture(name), .destination = place / "out", .config = fixture(config)});
    CHECK(done.step == 3);
    CHECK(done.by == "DeepSpeed 0.19.8");
    check_equal(place / "out", name);
    CHECK(fs::exists(place / "out/config.json"));
    CHECK(place.names() == std::vector<std::string>{"out"});
  }
}

// The CRC-32 of each tensor of a file is the one that another file says.
void check_sums(const std::string& weights, const std::string& expected) {
  RealFileSystem files;
  const SafetensorsFile made = SafetensorsFile::open(files, weights);
  const Value sums = read_config_document(files.read_text(expected, 1 << 20), expected);
  CHECK(made.names().size() == sums.members().size());
  for (const Member& sum : sums.members()) {
    CAPTURE(sum.key);
    std::string bytes(to_size(made.info(sum.key).bytes), '\0');
    made.read(sum.key, std::as_writable_bytes(std::span(bytes)));
    CHECK(crc32(bytes) == sum.value.as_integer());
  }
}

TEST_CASE("parts of tensor-parallel ranks are joined as their files or their family cut them",
          "[train]") {
  for (const char* name : {"tensor_zero1_bf16", "tensor_untold"}) {
    CAPTURE(name);
    const Place place;
    testing::unpack(fixture(std::string(name) + ".zip"), place / "from");
    converted({.source = place / "from", .destination = place / "out"});
    check_sums(place / "out/model.safetensors", place / "from/weights.json");
  }
}

TEST_CASE("weights under the names of Megatron become those of transformers", "[train]") {
  for (const char* name : {"megatron_gpt2", "megatron_gpt2_version0", "megatron_llama"}) {
    CAPTURE(name);
    const Place place;
    testing::unpack(fixture(std::string(name) + ".zip"), place / "from");
    converted({.source = place / "from", .destination = place / "out"});
    check_sums(place / "out/model.safetensors", place / "from/sums.json");
    const Converted universal = converted({.source = place / "from",
                                           .destination = place / "universal",
                                           .target = ConversionTarget::kUniversal});
    CHECK(universal.notes.size() == 1);
    converted(
        {.source = place / "universal", .destination = place / "again", .config = place / "from"});
    check_sums(place / "again/model.safetensors", place / "from/sums.json");
  }
}

TEST_CASE("Megatron's pipelines of tensor-parallel ranks become a model of transformers",
          "[train]") {
  for (const char* name : {"pipeline_tensor_fp32", "pipeline_tensor_told_bf16"}) {
    CAPTURE(name);
    const Place place;
    testing::unpack(fixture(std::string(name) + ".zip"), place / "from");
    converted({.source = place / "from", .destination = place / "out"});
    check_sums(place / "out/model.safetensors", place / "from/gpt2.json");
    converted({.source = place / "from",
               .destination = place / "universal",
               .target = ConversionTarget::kUniversal});
    converted(
        {.source = place / "universal", .destination = place / "again", .config = place / "from"});
    check_sums(place / "again/model.safetensors", place / "from/gpt2.json");
  }
}

TEST_CASE("what was converted is a source by itself", "[train]") {
  const Place place;
  const Converted first =
      converted({.source = fixture("zero2_fp32"), .destination = place / "one"});
  CHECK(first.from == fixture("zero2_fp32/global_step3"));
  const Converted again = converted({.source = place / "one", .destination = place / "two"});
  CHECK_FALSE(again.step);
  check_equal(place / "two", "zero2_fp32");
  const Converted half =
      converted({.source = place / "one", .destination = place / "half", .dtype = DType::kBF16});
  CHECK(half.bytes * 2 == again.bytes);
  // What lies where the folder is made stays, whosever it is.
  std::filesystem::create_directory(place / "mine.partial");
  CHECK_THROWS_WITH(converted({.source = place / "one", .destination = place / "mine"}),
                    Catch::Contains("mine.partial: is there already"));
  CHECK(std::filesystem::exists(place / "mine.partial"));
  CHECK(half.numel == again.numel);
}

TEST_CASE("of a conversion that is told to end nothing stays", "[train]") {
  const Place place;
  int reads = 0;
  const auto end_after = [&](int most) {
    return [&reads, most] {
      if (++reads > most) throw std::runtime_error("told to end");
    };
  };
  const Conversion what{.source = fixture("zero2_fp32"), .destination = place / "out"};
  converted({.source = what.source, .destination = place / "whole", .go_on = end_after(INT32_MAX)});
  const int all = reads;
  for (const int most : {0, 1, all - 1}) {
    for (const ConversionTarget target :
         {ConversionTarget::kHf, ConversionTarget::kBin, ConversionTarget::kUniversal}) {
      CAPTURE(most, target);
      reads = 0;
      CHECK_THROWS_WITH(converted({.source = what.source,
                                   .destination = what.destination,
                                   .target = target,
                                   .go_on = end_after(most)}),
                        "told to end");
      CHECK(place.names() == std::vector<std::string>{"whole"});
    }
  }
}

TEST_CASE("a checkpoint with a damaged byte is refused, and nothing stays", "[train]") {
  const Place place;
  fs::copy(fixture("zero2_fp32"), place / "in", fs::copy_options::recursive);
  const std::string file = place / "in/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt";
  damage_storages(file);
  CHECK_THROWS_WITH(converted({.source = place / "in", .destination = place / "out"}),
                    Catch::Contains(file) && Catch::Contains("it is damaged, copy it again"));
  CHECK(place.names() == std::vector<std::string>{"in"});
}

TEST_CASE("weights are stored as pytorch_model.bin has them where that is asked for", "[train]") {
  const Place place;
  converted({.source = fixture("zero2_fp32"),
             .destination = place / "bin",
             .dtype = DType::kBF16,
             .target = ConversionTarget::kBin});
  CHECK_FALSE(fs::exists(place / "bin/model.safetensors"));
  converted({.source = place / "bin",
             .destination = place / "again",
             .dtype = DType::kBF16,
             .target = ConversionTarget::kBin});
  RealFileSystem files;
  constexpr int64_t kMost = 1 << 20;
  CHECK(files.read_text(place / "bin/pytorch_model.bin", kMost) ==
        files.read_text(place / "again/pytorch_model.bin", kMost));
  converted({.source = place / "bin", .destination = place / "back", .dtype = DType::kBF16});
  converted(
      {.source = fixture("zero2_fp32"), .destination = place / "direct", .dtype = DType::kBF16});
  CHECK(files.read_text(place / "back/model.safetensors", kMost) ==
        files.read_text(place / "direct/model.safetensors", kMost));
}

TEST_CASE("a checkpoint of llm.c becomes a folder, or one that an optimizer goes on from",
          "[train]") {
  const std::string from = testing::source_directory() + "/tests/golden/llmc/model_00000003.bin";
  const Place place;
  const Converted done = converted({.source = from, .destination = place / "hf"});
  CHECK(done.by == "llm.c");
  CHECK(done.step == 3);
  RealFileSystem files;
  const SafetensorsFolder made = SafetensorsFolder::open(files, place / "hf");
  const std::string weights = "transformer.h.0.attn.c_attn.weight";
  const SafetensorsFolder wanted = SafetensorsFolder::open(
      files, testing::source_directory() + "/tests/golden/llmc/fp32.safetensors");
  CHECK(made.names() == wanted.names());
  CHECK(bytes_of(made, weights) == bytes_of(wanted, weights));
  const Converted again = converted(
      {.source = from, .destination = place / "universal", .target = ConversionTarget::kUniversal});
  CHECK(again.step == 3);
  CHECK(again.notes.size() == 2);  // nobody says the rate
  converted({.source = place / "universal", .destination = place / "back", .config = place / "hf"});
  const SafetensorsFolder back = SafetensorsFolder::open(files, place / "back");
  CHECK(bytes_of(back, weights) == bytes_of(wanted, weights));
  CHECK_THROWS_AS(converted({.source = from, .destination = place / "x", .tag = "global_step3"}),
                  UsageError);
}

TEST_CASE("rules rename tensors, and what is left over or missing is named", "[train]") {
  const Place place;
  place.write("good.txt", "transformer\\.(.*) => $1\n");
  converted({.source = fixture("zero2_fp32"),
             .destination = place / "out",
             .name_map = place / "good.txt"});
  check_equal(place / "out", "zero2_fp32");
  place.write("bad.txt", "transformer\\.wpe\\.weight => positions\n");
  const Conversion bad{
      .source = fixture("zero2_fp32"), .destination = place / "bad", .name_map = place / "bad.txt"};
  CHECK_THROWS_WITH(converted(bad), Catch::Contains("wpe.weight"));
  CHECK_THROWS_AS(converted(bad), DataError);
  place.write("more.txt", "lm_head\\.weight => new.name\n");
  CHECK_THROWS_WITH(converted({.source = fixture("zero2_fp32"),
                               .destination = place / "bad",
                               .name_map = place / "more.txt"}),
                    Catch::Contains("new.name"));
  CHECK_FALSE(fs::exists(place / "bad"));
}

TEST_CASE("a weight that --dtype cannot hold is refused by the name of the option", "[train]") {
  const Place place;
  const ModelConfig model = parse_hf_config(
      R"({"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_positions": 2,
          "vocab_size": 2})",
      "config.json");
  RealFileSystem files;
  files.make_directory(place / "from");
  place.write("from/config.json", format_hf_config(model, DType::kF32));
  const std::vector<ParamSpec> specs = specs_of_model(model, DType::kF32);
  TorchItem::Dict state;
  for (const ExportTensor& entry : export_list(specs, DType::kF32)) {
    state.emplace_back(entry.tensor.name,
                       TorchItem::Elements{DType::kF32, extents_of(entry.tensor.shape)});
  }
  const std::vector<float> large(64, 1e6F);
  write_torch_file(files, place / "from/pytorch_model.bin", state, [&](size_t index) {
    const auto& elements = std::get<TorchItem::Elements>(state[index].second.value);
    int64_t numel = 1;
    for (const int64_t extent : elements.shape) numel *= extent;
    return std::as_bytes(std::span(large).first(to_size(numel)));
  });
  const Conversion half{
      .source = place / "from", .destination = place / "half", .dtype = DType::kF16};
  CHECK_THROWS_WITH(converted(half), Catch::Contains("the number type of --dtype; take fp32") &&
                                         !Catch::Contains("final_dtype"));
  CHECK_FALSE(files.exists(place / "half"));
  CHECK_FALSE(files.exists(place / "half.partial"));
}

TEST_CASE("a conversion that cannot be made leaves nothing", "[train]") {
  const Place place;
  fs::create_directory(place / "there");
  CHECK_THROWS_AS(converted({.source = fixture("zero2_fp32"), .destination = place / "there"}),
                  UsageError);
  CHECK_THROWS_AS(converted({.source = fixture("zero2_fp32"), .destination = ""}), UsageError);
  fs::create_symlink(place / "gone", place / "link");
  CHECK_THROWS_WITH(converted({.source = fixture("zero2_fp32"), .destination = place / "link/"}),
                    Catch::Contains("link: is there already"));
  fs::remove(place / "link");
  fs::copy(fixture("zero2_fp32/global_step3"), place / "bare");
  CHECK_THROWS_WITH(converted({.source = place / "bare", .destination = place / "out"}),
                    Catch::Contains("--config"));
  const Conversion another{
      .source = place / "bare", .destination = place / "out", .config = fixture("zero2_frozen")};
  CHECK_THROWS_AS(converted(another), DataError);
  CHECK_THROWS_AS(converted({.source = place / "nowhere", .destination = place / "out"}),
                  InputMissing);
  CHECK_FALSE(fs::exists(place / "out"));
  CHECK(place.names().size() == 2);
}

}  // namespace
}  // namespace ds
