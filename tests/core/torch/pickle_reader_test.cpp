// Pickles as inert values: each opcode, each allowed name, and programs that are refused.
#include "core/torch/pickle_reader.h"

#include <vector>

#include "core/status/error.h"
#include "core/torch/value_check.h"
#include "tests/support/catch.h"
#include "tests/support/files/pickle_bytes.h"

namespace ds {
namespace {

using namespace testing::pickle;
using Kind = TorchValue::Kind;

std::string bytes_of(std::string_view text) { return std::string(text); }

// A pickle that was read, with all that its values lie in.
struct Read {
  explicit Read(std::string text, int64_t bytes_max = 1 << 20)
      : pickle(std::move(text)), arena("/p.pt", bytes_max) {
    source = {.path = "/p.pt", .entry = {}, .bytes = std::as_bytes(std::span(pickle))};
    root = PickleReader(source, arena, storages).read(0);
  }
  std::string pickle;
  PickleSource source{};
  ValueArena arena;
  TorchStorages storages{};
  TorchValue root{};
};

std::string refusal(const std::string& pickle, int64_t bytes_max = 1 << 20) {
  try {
    const Read read(pickle, bytes_max);
  } catch (const DataError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a pickle's scalars are what Python has", "[core]") {
  CHECK(Read(whole("N")).root.is_none());
  CHECK(Read(whole("\x88")).root.as_bool() == true);
  CHECK(Read(whole("\x89")).root.as_bool() == false);
  CHECK(Read(whole("K\xff")).root.as_int() == 255);
  CHECK(Read(whole("M\x01\xff")).root.as_int() == 0xff01);
  CHECK(Read(whole("J\xfe\xff\xff\xff")).root.as_int() == -2);
  CHECK(Read(whole(bytes_of({"\x8a\x00", 2}))).root.as_int() == 0);
  CHECK(Read(whole("\x8a\x01\xff")).root.as_int() == -1);
  CHECK(Read(whole(bytes_of({"\x8a\x02\xff\x00", 4}))).root.as_int() == 255);
  CHECK(Read(whole("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f")).root.as_int() == INT64_MAX);
  CHECK(Read(whole(bytes_of({"G\x3f\xf8\0\0\0\0\0\0", 9}))).root.as_float() == 1.5);
  CHECK(Read(whole("U\x02hi")).root.as_text() == "hi");
  CHECK(Read(whole("U\x01\xff")).root.as_bytes() == "\xff");
  CHECK(Read(whole("\x8c\x02hi")).root.as_text() == "hi");
  CHECK(Read(whole(text("h\xc3\xa4"))).root.as_text() == "h\xc3\xa4");
  CHECK(Read(whole(bytes_of({"\x8d\x02\0\0\0\0\0\0\0hi", 11}))).root.as_text() == "hi");
  CHECK(Read(whole("C\x02hi")).root.as_bytes() == "hi");
  CHECK(Read(whole(bytes_of({"B\x02\0\0\0hi", 7}))).root.as_bytes() == "hi");
  CHECK(Read(whole(bytes_of({"\x8e\x02\0\0\0\0\0\0\0hi", 11}))).root.as_bytes() == "hi");
  CHECK(Read(whole(bytes_of({"\x96\x02\0\0\0\0\0\0\0hi", 11}))).root.as_bytes() == "hi");
}

TEST_CASE("an integer beyond 64 bits stays bytes", "[core]") {
  const Read read(whole(bytes_of({"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11})));
  REQUIRE(read.root.as_record() != nullptr);
  CHECK(read.root.as_record()->full_name() == "builtins.int");
  CHECK(read.root.as_record()->arguments.at(0).as_bytes()->size() == 9);
  const Read small(whole(bytes_of({"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00", 11})));
  CHECK(small.root.as_int() == INT64_MAX);
  CHECK(Read(whole("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\xff")).root.as_int() == -1);
}

TEST_CASE("a pickle's containers keep the order of the file", "[core]") {
  const Read list(
      whole("](K\x01K\x02"
            "eK\x03"
            "a"));
  REQUIRE(list.root.kind() == Kind::kList);
  REQUIRE(list.root.as_sequence()->items.size() == 3);
  CHECK(list.root.as_sequence()->items[2].as_int() == 3);
  const Read tuple(whole("K\x01K\x02K\x03\x87"));
  CHECK(tuple.root.kind() == Kind::kTuple);
  CHECK(tuple.root.as_sequence()->items[0].as_int() == 1);
  CHECK(Read(whole("K\x01K\x02\x86")).root.as_sequence()->items[1].as_int() == 2);
  CHECK(Read(whole("K\x01\x85")).root.as_sequence()->items.size() == 1);
  CHECK(Read(whole(")")).root.kind() == Kind::kTuple);
  CHECK(Read(whole("(K\x01K\x02t")).root.as_sequence()->items.size() == 2);
  const Read set(whole("\x8f(K\x07K\x05\x90"));
  CHECK(set.root.kind() == Kind::kSet);
  CHECK(set.root.as_sequence()->items[1].as_int() == 5);
  CHECK(Read(whole("(K\x07\x91")).root.kind() == Kind::kSet);
  const Read dict(whole("}K\x09K\x01s(" + text("a") + "K\x02u"));
  REQUIRE(dict.root.as_dict() != nullptr);
  CHECK(dict.root.as_dict()->items.size() == 2);
  CHECK(dict.root.as_dict()->find(9)->as_int() == 1);
  CHECK(dict.root.as_dict()->find("a")->as_int() == 2);
  CHECK(dict.root.as_dict()->find("b") == nullptr);
}

TEST_CASE("what the memo holds is one value at several places", "[core]") {
  const Read read(
      whole("](]q\x05h\x05]\x94h\x06"
            "e"));
  const auto& items = read.root.as_sequence()->items;
  REQUIRE(items.size() == 4);
  CHECK(items[0].as_sequence() == items[1].as_sequence());
  CHECK(items[2].as_sequence() == items[3].as_sequence());
  const Read wide(whole(bytes_of({"](]r\x00\x01\0\0j\x00\x01\0\0e", 14})));
  CHECK(wide.root.as_sequence()->items.at(1).kind() == Kind::kList);
  CHECK_THAT(refusal(whole("h\x05")), Catch::Contains("value 5 of the memo is not there"));
  CHECK_THAT(refusal(whole("Nq\x02h\x01\x86")), Catch::Contains("value 1 of the memo"));
}

TEST_CASE("dicts of collections are dicts, with their attributes", "[core]") {
  const Read ordered(whole(global("collections", "OrderedDict") + ")R(" + text("a") + "K\x01u" +
                           dict({{"_metadata", "N"}}) + "b"));
  REQUIRE(ordered.root.as_dict() != nullptr);
  CHECK(ordered.root.as_dict()->find("a")->as_int() == 1);
  CHECK(ordered.root.as_dict()->attributes.as_dict()->find("_metadata")->is_none());
  const Read defaults(whole(global("collections", "defaultdict") + global("__builtin__", "dict") +
                            "\x85R" + text("k") + "K\x02s"));
  CHECK(defaults.root.as_dict()->find("k")->as_int() == 2);
  const Read counter(whole(global("collections", "Counter") + "}K\x03K\x01s\x85R"));
  CHECK(counter.root.as_dict()->find(3)->as_int() == 1);
  const Read pairs(whole(global("collections", "OrderedDict") + "]K\x01K\x02\x86"
                                                                "a\x85R"));
  CHECK(pairs.root.as_dict()->find(1)->as_int() == 2);
}

TEST_CASE("sets, bytes and sizes of protocol 2 are values", "[core]") {
  const Read set(whole(global("__builtin__", "set") + "]K\x01"
                                                      "a\x85R"));
  CHECK(set.root.kind() == Kind::kSet);
  CHECK(set.root.as_sequence()->items.at(0).as_int() == 1);
  const Read bytes(
      whole(global("_codecs", "encode") + text("a\xc3\xbf\xc2\x80") + text("latin1") + "\x86R"));
  CHECK(bytes.root.as_bytes() == "a\xff\x80");
  CHECK(Read(whole(global("__builtin__", "bytes") + ")R")).root.as_bytes() == "");
  CHECK_THAT(
      refusal(whole(global("_codecs", "encode") + text("\xc4\x80") + text("latin1") + "\x86R")),
      Catch::Contains("beyond Latin-1"));
  CHECK_THAT(refusal(whole(global("_codecs", "encode") + text("a") + text("rot13") + "\x86R")),
             Catch::Contains("'latin1'"));
  const Read size(whole(global("torch", "Size") + "(K\x02K\x03t\x85R"));
  CHECK(size.root.kind() == Kind::kTuple);
  CHECK(size.root.as_sequence()->items.at(1).as_int() == 3);
}

TEST_CASE("objects of allowed classes are records, and none is made", "[core]") {
  const Read scaler(whole(global("deepspeed.runtime.fp16.loss_scaler", "LossScaler") + ")\x81" +
                          dict({{"cur_scale", "K\x04"}, {"dtype", global("torch", "float16")}}) +
                          "b"));
  const TorchRecord* record = scaler.root.as_record();
  REQUIRE(record != nullptr);
  CHECK(record->full_name() == "deepspeed.runtime.fp16.loss_scaler.LossScaler");
  CHECK(record->attribute("cur_scale")->as_int() == 4);
  CHECK(record->attribute("dtype")->as_dtype()->name == "float16");
  CHECK(record->attribute("none") == nullptr);
  const Read stage(whole(global("deepspeed.runtime.zero.config", "ZeroStageEnum") + "K\x02\x85R"));
  CHECK(stage.root.as_record()->arguments.at(0).as_int() == 2);
  const Read device(
      whole("\x8c\x05torch\x8c\x06"
            "device\x93" +
            text("cuda") + "K\x01\x86R"));
  CHECK(device.root.as_record()->full_name() == "torch.device");
  CHECK_THAT(refusal(whole(global("argparse", "Namespace") + ")\x81}(K\x01K\x02ub}(K\x01K\x02ub")),
             Catch::Contains("argparse.Namespace has its state twice"));
}

TEST_CASE("a pickle that would run something is refused by the name of it", "[core]") {
  const auto names = GENERATE(
      values<std::pair<const char*, const char*>>({{"os", "system"},
                                                   {"posix", "system"},
                                                   {"nt", "system"},
                                                   {"builtins", "eval"},
                                                   {"__builtin__", "eval"},
                                                   {"builtins", "exec"},
                                                   {"builtins", "getattr"},
                                                   {"subprocess", "Popen"},
                                                   {"torch", "load"},
                                                   {"torch.hub", "load"},
                                                   {"torch", "Size.__new__"},
                                                   {"operator", "attrgetter"},
                                                   {"numpy", "load"},
                                                   {"collections", "OrderedDict.pop"},
                                                   {"torch._utils", "eval"},
                                                   {"deepspeed.runtime.zero.config", "os"}}));
  const std::string module = names.first;
  const std::string name = names.second;
  const std::string told = "'" + module + "'.'" + name + "'";
  CAPTURE(told);
  CHECK_THAT(refusal(whole(global(module, name) + text("touch /tmp/x") + "\x85R")),
             Catch::Contains("/p.pt: byte 2 of the file: ") && Catch::Contains(told) &&
                 Catch::Contains("nothing was run"));
  const std::string stacked = whole(text(module) + text(name) + "\x93)R");
  CHECK_THAT(refusal(stacked), Catch::Contains(told));
  CHECK_THAT(refusal(whole("(" + text("id") + "i" + module + "\n" + name + "\n")),
             Catch::Contains(told));
}

TEST_CASE("a name is told without the control characters that it has", "[core]") {
  CHECK_THAT(refusal(whole(global("o\x1b[2Js", "x"))), Catch::Contains("'o?[2Js'.'x'"));
}

TEST_CASE("names that are allowed cannot be put to other uses", "[core]") {
  const std::string size = global("torch", "Size");
  CHECK_THAT(refusal(whole("K\x01)R")), Catch::Contains("calls an integer"));
  CHECK_THAT(refusal(whole(global("torch", "float16") + ")R")), Catch::Contains("calls a dtype"));
  CHECK_THAT(refusal(whole(global("__builtin__", "dict") + ")R")),
             Catch::Contains("calls __builtin__.dict, which may only be named"));
  CHECK_THAT(refusal(whole(global("torch._utils", "_rebuild_tensor_v2") + ")\x81")),
             Catch::Contains("no class of objects"));
  CHECK_THAT(refusal(whole(size + "K\x01R")), Catch::Contains("expected a tuple"));
  CHECK_THAT(refusal(whole(size + "J\xff\xff\xff\xff\x85\x85R")),
             Catch::Contains("is -1, expected"));
  CHECK_THAT(refusal(whole("K\x01}b")), Catch::Contains("the state of an integer"));
  CHECK_THAT(refusal(whole(")K\x01"
                           "a")),
             Catch::Contains("added to a tuple"));
  CHECK_THAT(refusal(whole("](K\x01u")), Catch::Contains("expected pairs"));
  CHECK_THAT(refusal(whole("K\x01\x85Q")), Catch::Contains("is no storage"));
}

TEST_CASE("a tensor's elements lie inside of its storage", "[core]") {
  const auto told = [](const View& view) {
    return refusal(whole(tensor(storage("FloatStorage", "0", 6), view)));
  };
  const Read read(whole(tensor(storage("FloatStorage", "0", 6), {{2, 2}, {1, 2}, 2})));
  const TorchTensor* made = read.root.as_tensor();
  REQUIRE(made != nullptr);
  CHECK(made->shape == std::vector<int64_t>{2, 2});
  CHECK(made->strides == std::vector<int64_t>{1, 2});
  CHECK(made->offset == 2);
  CHECK(made->dtype.name == "float32");
  CHECK_FALSE(made->is_contiguous());
  CHECK(made->storage->id == "0");
  CHECK(made->storage->numel == 6);
  CHECK(told({{2, 3}, {3, 1}}) == "accepted");
  CHECK(told({{2, 1}, {3, 77}}) == "accepted");
  CHECK(told({{0, 9}, {9, 1}, 6}) == "accepted");
  CHECK(told({{}, {}, 5}) == "accepted");
  CHECK_THAT(told({{}, {}, 6}), Catch::Contains("ends at element 6 of storage '0', which has 6"));
  CHECK_THAT(told({{0}, {1}, 7}), Catch::Contains("begins at element 7"));
  CHECK_THAT(told({{7}, {1}}), Catch::Contains("does not fit into storage '0' of 6 elements"));
  CHECK_THAT(told({{2, 3}, {3, 1}, 1}), Catch::Contains("does not fit"));
  CHECK_THAT(told({{1 << 30, 1 << 30}, {0, 0}}), Catch::Contains("does not fit"));
  CHECK_THAT(told({{2}, {1 << 30}}), Catch::Contains("does not fit"));
  CHECK_THAT(told({{2}, {1, 1}}), Catch::Contains("as many strides as extents"));
  CHECK_THAT(told({{2}, {1}, -1}), Catch::Contains("has to have an offset"));
}

TEST_CASE("a storage is the same for all that name its id", "[core]") {
  const std::string four = storage("FloatStorage", "7", 4);
  const Read read(whole(tensor(four, {{4}, {1}}) + tensor(four, {{2}, {1}, 2}) + "\x86"));
  const auto& items = read.root.as_sequence()->items;
  CHECK(items[0].as_tensor()->storage == items[1].as_tensor()->storage);
  CHECK(read.storages.size() == 1);
  CHECK_THAT(refusal(whole(four + storage("FloatStorage", "7", 5) + "\x86")),
             Catch::Contains("storage '7' has 5 elements of float32, and 4 of float32 before"));
  CHECK_THAT(refusal(whole(four + storage("HalfStorage", "7", 4) + "\x86")),
             Catch::Contains("4 elements of float16"));
  CHECK_THAT(refusal(whole(storage("FloatStorage", "7", -4))),
             Catch::Contains("number of elements"));
  CHECK_THAT(refusal(whole(storage("float32", "7", 4))), Catch::Contains("no class of torch"));
}

TEST_CASE("a pickle that is cut anywhere is refused", "[core]") {
  const std::string pickle =
      whole(dict({{"w", tensor(storage("FloatStorage", "0", 6), {{2, 3}, {3, 1}})}}));
  CHECK(refusal(pickle) == "accepted");
  for (size_t size = 0; size < pickle.size(); ++size) {
    CAPTURE(size);
    CHECK(refusal(pickle.substr(0, size)) != "accepted");
  }
}

TEST_CASE("a pickle gets no memory for lengths that it only claims", "[core]") {
  CHECK_THAT(refusal(whole("X\xff\xff\xff\x7fhi")),
             Catch::Contains("2147483647 bytes are said to follow, and there are 3"));
  CHECK_THAT(refusal(whole("\x8e\xff\xff\xff\xff\xff\xff\xff\xff")),
             Catch::Contains("are said to follow"));
  CHECK_THAT(refusal(whole("\x95\xff\xff\xff\xff\xff\xff\xff\xff")),
             Catch::Contains("are said to follow"));
  CHECK_THAT(refusal(whole("Nr\xff\xff\xff\xff")),
             Catch::Contains("asks for more than 1048576 bytes"));
  CHECK_THAT(refusal(whole("](" + std::string(100000, 'N') + "e")),
             Catch::Contains("asks for more than"));
  CHECK_THAT(refusal(std::string(200000, '(')), Catch::Contains("asks for more than"));
  CHECK_THAT(refusal(std::string(20000, ']')), Catch::Contains("asks for more than"));
  std::string many = "]";
  for (int count = 0; count < 30000; ++count) many += ")a";
  CHECK_THAT(refusal(whole(many)), Catch::Contains("asks for more than"));
}

TEST_CASE("containers are nested to a limit, and do not contain themselves", "[core]") {
  const auto nested = [](int depth) {
    return whole(std::string(static_cast<size_t>(depth), ']') +
                 std::string(static_cast<size_t>(depth - 1), 'a'));
  };
  CHECK(refusal(nested(kDeepestTorchValue)) == "accepted");
  CHECK_THAT(refusal(nested(kDeepestTorchValue + 1)), Catch::Contains("nested more than 100"));
  CHECK_THAT(refusal(whole("]q\x01h\x01"
                           "a")),
             Catch::Contains("a list contains itself"));
  CHECK_THAT(refusal(whole("]q\x01h\x01\x85"
                           "a")),
             Catch::Contains("contains itself"));
  CHECK_THAT(refusal(whole("}q\x01K\x01h\x01s")), Catch::Contains("a dict contains itself"));
}

TEST_CASE("values that are shared cannot grow beyond the file", "[core]") {
  std::string bomb = "N\x85q\x01";
  for (int level = 0; level < 40; ++level) bomb += "h\x01\x86q\x01";
  CHECK_THAT(refusal(whole(bomb)), Catch::Contains("values that are shared come to more than"));
}

TEST_CASE("a dict has each of its keys once", "[core]") {
  CHECK_THAT(refusal(whole(dict({{"w", "K\x01"}, {"w", "K\x02"}}))),
             Catch::Contains("a dict has the key 'w' twice"));
  CHECK_THAT(refusal(whole("}(K\x01NK\x01Nu")), Catch::Contains("a dict has the key 1 twice"));
}

TEST_CASE("opcodes that torch.save does not write are refused", "[core]") {
  for (const char* opcode : {"P1\n", "I1\n", "0", "2", "o", "\x82\x01", "\x92", "\x97", "V1\n"}) {
    CAPTURE(opcode);
    CHECK_THAT(refusal(whole("(" + std::string(opcode))),
               Catch::Contains("is none of those that torch.save writes"));
  }
  CHECK_THAT(refusal("\x80\x06N."), Catch::Contains("pickle protocol 6"));
  CHECK_THAT(refusal(whole("NN")), Catch::Contains("more than one value"));
  CHECK_THAT(refusal(whole("N(")), Catch::Contains("a value is missing"));
  CHECK_THAT(refusal(whole(text("\xff"))), Catch::Contains("not valid UTF-8"));
  CHECK_THAT(refusal(whole(text("\xed\xa0\x80"))), Catch::Contains("not valid UTF-8"));
}

}  // namespace
}  // namespace ds
