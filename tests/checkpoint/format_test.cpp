// The texts of index, manifest and trailer.
#include "checkpoint/format.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

FileIndex sample_index() {
  FileIndex index;
  index.tag = "t1";
  index.epoch = 3;
  index.rank = 2;
  index.data_bytes = kBlockBytes + 100;
  index.pieces = {
      {"a/weight", DType::kBF16, Shape{10, 5}, Region::flat(10, 40), 64},
      {"b/weight", DType::kF32, Shape{4, 9}, {{{{{0, 4}}, {{1, 2}, {4, 6}}}}, {2, 11}}, 128}};
  index.states = {{"rng", R"({"seed":1})"}};
  index.blocks = {std::string(32, 'a'), std::string(32, '0')};
  return index;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("an index survives being written down", "[checkpoint]") {
  const FileIndex index = sample_index();
  const FileIndex parsed = parse_index("/f", to_text(index) + "   ");
  CHECK(parsed.tag == "t1");
  CHECK(parsed.epoch == 3);
  CHECK(parsed.rank == 2);
  CHECK(parsed.data_bytes == index.data_bytes);
  REQUIRE(parsed.pieces.size() == 2);
  CHECK(parsed.pieces[0].name == "a/weight");
  CHECK(parsed.pieces[0].dtype == DType::kBF16);
  CHECK(parsed.pieces[0].shape == Shape{10, 5});
  CHECK(parsed.pieces[0].region == Region::flat(10, 40));
  CHECK(parsed.pieces[0].bytes() == 60);
  CHECK(parsed.pieces[1].region == index.pieces[1].region);
  CHECK(parsed.pieces[1].bytes() == 36);
  CHECK(parsed.states == index.states);
  CHECK(parsed.blocks == index.blocks);
}

TEST_CASE("an index says the cut only where there is one", "[checkpoint]") {
  const std::string text = to_text(sample_index());
  CHECK_THAT(text, Catch::Contains(R"("shape":[10,5],"within":[10,40],"offset":64)"));
  CHECK_THAT(text,
             Catch::Contains(
                 R"("shape":[4,9],"cut":[[[0,4]],[[1,2],[4,6]]],"within":[2,11],"offset":128)"));
}

namespace {

// As version 1 was written, with a piece of each kind: a range of elements and a box.
constexpr const char* kIndex1 =
    R"({"version":1,"tag":"t1","epoch":3,"rank":2,"data_bytes":256,"pieces":[)"
    R"({"name":"a/weight","dtype":"bf16","shape":[10,5],"begin":[10],"end":[40],"offset":64},)"
    R"({"name":"b/weight","dtype":"fp32","shape":[4,4],"begin":[0,2],"end":[4,4],"offset":128}],)"
    R"("states":{"rng":"{\"seed\":1}"},"blocks":"00000000000000000000000000000000"})";

std::string defect_of_index(std::string text, const std::string& from, const std::string& to) {
  replace(text, from, to);
  try {
    parse_index("/f", text);
  } catch (const ValidationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an index of version 1 says ranges of elements and boxes", "[checkpoint]") {
  const FileIndex parsed = parse_index("/f", kIndex1);
  REQUIRE(parsed.pieces.size() == 2);
  CHECK(parsed.pieces[0].region == Region::flat(10, 40));
  CHECK(parsed.pieces[1].region == Region{{{{{0, 4}}, {{2, 4}}}}, {0, 8}});
  CHECK(parsed.pieces[1].offset == 128);
  const FileIndex again = parse_index("/f", to_text(parsed));  // and is written as version 2
  CHECK(again.pieces[1].region == parsed.pieces[1].region);
  CHECK(runs_of(parse_index("/f",
                            [] {
                              std::string text = kIndex1;
                              replace(text, R"("begin":[0,2])", R"("begin":[0,4])");
                              return text;
                            }())
                    .pieces[1]
                    .region,
                Shape{4, 4})
            .empty());
}

TEST_CASE("an index of version 1 whose regions do not fit is refused", "[checkpoint]") {
  const auto defect = [](const std::string& from, const std::string& to) {
    return defect_of_index(kIndex1, from, to);
  };
  using Catch::Contains;
  CHECK_THAT(defect(R"("end":[40])", R"("end":[51])"), Contains("/f: piece 'a/weight': "));
  CHECK_THAT(defect(R"("end":[40])", R"("end":[51])"), Contains("[10, 51) of shape [10, 5]"));
  CHECK_THAT(defect(R"("end":[40])", R"("end":[9])"), Contains("[10, 9) of shape"));
  CHECK_THAT(defect(R"("end":[40])", R"("end":[])"), Contains("1 begins, 0 ends"));
  CHECK_THAT(defect(R"("begin":[10],"end":[40])", R"("begin":[],"end":[])"),
             Contains("0 begins, 0 ends"));
  CHECK_THAT(defect(R"("end":[4,4])", R"("end":[4,5])"), Contains("[2, 5) on axis 1"));
  CHECK_THAT(defect(R"("end":[4,4])", R"("end":[4,1])"), Contains("[2, 1) on axis 1"));
  CHECK_THAT(defect(R"("begin":[0,2],"end":[4,4])", R"("begin":[0,0,0],"end":[1,1,1])"),
             Contains("a cut of 3 axes for shape [4, 4]"));
  CHECK_THAT(defect(R"("begin":[10])", R"("begin":[-1])"), Contains("other than whole numbers"));
  CHECK_THAT(defect(R"("end":[40],)", ""), Contains("'end' is missing"));
}

TEST_CASE("an index whose numbers do not fit together is refused", "[checkpoint]") {
  const auto defect = [](const std::string& from, const std::string& to) {
    return defect_of_index(to_text(sample_index()), from, to);
  };
  using Catch::Contains;
  CHECK_THAT(defect(R"("version":2)", R"("version":3)"),
             Contains("format version 3, this build reads 1 to 2"));
  CHECK_THAT(defect(R"("version":2)", R"("version":0)"), Contains("format version 0"));
  CHECK_THAT(defect(R"("offset":64)", R"("offset":-1)"), Contains("'offset' is not an integer"));
  CHECK_THAT(defect(R"("offset":64)", R"("offset":1048650)"),
             Contains("leave the 1048676 data bytes"));
  CHECK_THAT(defect(R"("offset":64)", R"("offset":99999999999999999999)"),
             Contains("not an integer"));
  CHECK_THAT(defect(R"([10,40])", R"([10,51])"),
             Contains("/f: piece 'a/weight': region: elements [10, 51) of shape [10, 5]"));
  CHECK_THAT(defect(R"([10,40])", R"([10,9])"), Contains("elements [10, 9)"));
  CHECK_THAT(defect(R"([10,40])", R"([10])"),
             Contains("'within' holds something other than pairs"));
  CHECK_THAT(defect(R"([10,40])", R"([10,40,50])"), Contains("other than pairs"));
  CHECK_THAT(defect(R"([10,40])", R"([-1,40])"), Contains("other than whole numbers"));
  CHECK_THAT(defect(R"([10,40])", R"([10,99999999999999999999])"), Contains("whole numbers"));
  CHECK_THAT(defect(R"([10,40])", "7"), Contains("'within' is not a list"));
  CHECK_THAT(defect(R"("within":[10,40],)", ""), Contains("'within' is missing"));
  CHECK_THAT(defect(R"([2,11])", R"([2,13])"), Contains("elements [2, 13) of shape [4, 3]"));
  CHECK_THAT(defect(R"([4,6])", R"([4,10])"), Contains("[4, 10) on axis 1 of shape [4, 9]"));
  CHECK_THAT(defect(R"([4,6])", R"([1,6])"), Contains("[1, 6) on axis 1"));
  CHECK_THAT(defect(R"([4,6])", R"([6,6])"), Contains("[6, 6) on axis 1"));
  CHECK_THAT(defect(R"([1,2],[4,6])", R"([4,6],[1,2])"), Contains("[1, 2) on axis 1"));
  CHECK_THAT(defect(R"([[0,4]],)", ""), Contains("a cut of 1 axes for shape [4, 9]"));
  CHECK_THAT(defect(R"([[0,4]],)", "5,"), Contains("'cut' is not a list"));
  CHECK_THAT(defect(R"([[0,4]],)", R"([[0,"4"]],)"), Contains("'cut' holds something other than"));
  CHECK_THAT(defect(R"([[[0,4]],[[1,2],[4,6]]])", "[]"), Contains("'cut' has no axes"));
  CHECK_THAT(defect(R"([10,5])", R"([4294967296,4294967296])"), Contains("overflow"));
  CHECK_THAT(defect(R"([10,5])", R"([1,1,1,1,1,1,50])"), Contains("rank 7"));
  CHECK_THAT(defect("bf16", "bf17"), Contains("unknown dtype 'bf17'"));
  CHECK_THAT(defect(R"("data_bytes":1048676)", R"("data_bytes":1048576)"),
             Contains("2 block digests"));
  CHECK_THAT(defect(R"("states":{)", R"("states":{"x":1,)"), Contains("a state is not a string"));
  CHECK_THAT(defect(R"("tag":"t1",)", ""), Contains("'tag' is missing"));
  CHECK_THROWS_WITH(parse_index("/f", "{"), Contains("/f: not valid JSON"));
  CHECK_THROWS_WITH(parse_index("/f", "[]"), Contains("expected a JSON object"));
}

TEST_CASE("a manifest carries its own digest", "[checkpoint]") {
  const Manifest manifest{"t1", 12, 3, {{"rank-00000.pieces", 0, 3, 4096, std::string(32, 'b')}}};
  const std::string text = to_text(manifest);
  const Manifest parsed = parse_manifest("/m", text);
  CHECK(parsed.tag == "t1");
  CHECK(parsed.step == 12);
  CHECK(parsed.epoch == 3);
  REQUIRE(parsed.files.size() == 1);
  CHECK(parsed.files[0].bytes == 4096);
  CHECK(parsed.files[0].epoch == 3);
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char flip : {char{1}, char{0x20}}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      CHECK_THROWS_AS(parse_manifest("/m", damaged), ValidationError);
    }
    CHECK_THROWS_AS(parse_manifest("/m", text.substr(0, i)), ValidationError);
  }
  Manifest escaping = manifest;
  escaping.files[0].name = "../rank-00000.pieces";
  CHECK_THROWS_WITH(parse_manifest("/m", to_text(escaping)),
                    Catch::Contains("expected rank-00000"));
}

TEST_CASE("a manifest says in which epoch its training began, or is older than that",
          "[checkpoint]") {
  Manifest manifest{"t1", 12, 9, {{"rank-00000.pieces", 0, 9, 4096, std::string(32, 'b')}}};
  manifest.begun_in = 7;
  const std::string text = to_text(manifest);
  CHECK(parse_manifest("/m", text).begun_in == 7);
  const size_t rest_begin = text.find("\",") + 2;
  std::string rest = text.substr(rest_begin);
  const std::string field = "\"begun_in\":7,";
  rest.erase(rest.find(field), field.size());
  const std::string older =
      fmt::format(R"({{"digest":"{}",{})", digest_of(std::as_bytes(std::span(rest))), rest);
  CHECK(parse_manifest("/m", older).begun_in == 0);
}

namespace {

// A manifest's text with one part changed, under a digest that fits.
std::string changed_manifest(const std::string& from, const std::string& to) {
  Manifest manifest{"t1", 12, 3, {{"rank-00000.pieces", 0, 3, 4096, std::string(32, 'b')}}};
  manifest.files.push_back({"rank-00001.pieces", 1, 3, 8192, std::string(32, 'c')});
  manifest.hosts = {"node-1", "node-2"};
  std::string rest = to_text(manifest);
  rest.erase(0, rest.find("\",") + 2);
  if (!from.empty()) replace(rest, from, to);
  return fmt::format(R"({{"digest":"{}",{})", digest_of(std::as_bytes(std::span(rest))), rest);
}

}  // namespace

TEST_CASE("a manifest whose parts do not fit is refused though its digest does", "[checkpoint]") {
  using Catch::Contains;
  const auto defect = [](const std::string& from, const std::string& to) -> std::string {
    try {
      parse_manifest("/m", changed_manifest(from, to));
    } catch (const ValidationError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(defect("", "") == "accepted");
  CHECK_THAT(defect("dslaunch checkpoint", "other checkpoint"),
             Contains("format 'other checkpoint' version 1, this build reads"));
  CHECK_THAT(defect(R"("version":1)", R"("version":2)"), Contains("version 2, this build reads"));
  CHECK_THAT(defect(R"("step":12)", R"("step":-1)"), Contains("'step' is not an integer from 0"));
  CHECK_THAT(defect(R"("step":12)", R"("step":"12")"), Contains("'step' is not an integer"));
  CHECK_THAT(defect(R"("epoch":3,)", ""), Contains("'epoch' is missing"));
  CHECK_THAT(defect(R"("tag":"t1")", R"("tag":5)"), Contains("'tag' is not a string"));
  CHECK_THAT(defect(R"("rank":1)", R"("rank":2)"),
             Contains("file 'rank-00001.pieces' of rank 2, expected rank-00002.pieces"));
  CHECK_THAT(defect(R"("rank":1)", R"("rank":4294967297)"), Contains("'rank' is not an integer"));
  CHECK_THAT(defect(R"("bytes":8192)", R"("bytes":1e3)"), Contains("'bytes' is not an integer"));
  CHECK_THAT(defect(std::string(32, 'c'), std::string(32, 'C')),
             Contains("'digest' is not a digest of 32 hex digits"));
  CHECK_THAT(defect(std::string(32, 'c'), std::string(31, 'c')), Contains("'digest' is not"));
  CHECK_THAT(defect(R"(,"host":"node-2")", ""), Contains("some files have a host, others none"));
  CHECK_THAT(defect(R"("files":[)", R"("files":[5,)"), Contains("expected a JSON object"));
  CHECK_THAT(defect("\"files\":[", "\"files\":[[],"), Contains("expected a JSON object"));
}

TEST_CASE("what does not begin as manifests do is told so", "[checkpoint]") {
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string(R"({"tag":"t"})"),
        std::string(R"({"digest":"abc"})"), std::string(R"({"digest":")") + std::string(40, 'a')}) {
    CHECK_THROWS_WITH(parse_manifest("/m", text),
                      "/m: not a manifest: it does not begin with its digest");
  }
}

TEST_CASE("names of pieces files sort as their ranks do", "[checkpoint]") {
  CHECK(pieces_file_name(0) == "rank-00000.pieces");
  CHECK(pieces_file_name(12345) == "rank-12345.pieces");
  for (int rank = 1; rank < 99'999; rank += 97) {
    REQUIRE(pieces_file_name(rank - 1) < pieces_file_name(rank));
  }
}

TEST_CASE("a trailer is checked against its own digest and the file's length", "[checkpoint]") {
  const Trailer trailer{100, 3932, std::string(16, 'a') + std::string(16, '1')};
  const auto bytes = to_bytes(trailer);
  const Trailer parsed = parse_trailer("/f", bytes, 4096);
  CHECK(parsed.index_offset == 100);
  CHECK(parsed.index_bytes == 3932);
  CHECK(parsed.index_digest == trailer.index_digest);
  CHECK_THROWS_WITH(parse_trailer("/f", bytes, 4095), Catch::Contains("index of 3932 bytes"));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    CHECK_THROWS_AS(parse_trailer("/f", damaged, 4096), ValidationError);
  }
  const auto hostile = to_bytes({-1, -1, std::string(32, '0')});
  CHECK_THROWS_AS(parse_trailer("/f", hostile, 4096), ValidationError);
}

TEST_CASE("digests are those of XXH3-128", "[checkpoint]") {
  CHECK(digest_of({}) == "99aa06d3014798d86001c324468d497f");  // the reference value of no input
}
