// make_seeds FOLDER: writes small inputs for each fuzz target into FOLDER/TARGET, so that fuzzing begins inside the formats.
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/record_file.h"
#include "base/test_directory.h"
#include "center/credentials.h"
#include "center/grpc_frame.h"
#include "center/journal_writer.h"
#include "center/snapshot.h"
#include "center/test_center.h"
#include "data/cifar.h"
#include "data/image_codec.h"
#include "data/image_folder.h"
#include "data/image_vectors.h"
#include "data/packed_images.h"
#include "data/test_cifar.h"
#include "data/test_images.h"
#include "data/tfrecord.h"
#include "fetch/test_archives.h"
#include "launch/worker_message.h"
#include "report/event_file.h"
#include "report/metrics_file.h"
#include "report/receipt_file.h"
#include "tests/fuzz/center_frames.h"
#include "train/layer_table.h"
#include "train/safetensors.h"

namespace fs = std::filesystem;
using namespace std::string_literals;

namespace cohort {
namespace {

class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& target, const std::string& name, const std::string& bytes) const {
    fs::create_directories(folder_ / target);
    writeTestFile(folder_ / target / name, bytes);
  }

 private:
  fs::path folder_;
};

void addIdx(const Seeds& seeds) {
  const std::string labels = "\0\0\x08\x01\0\0\0\x03\1\2\3"s;
  const std::string images = "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02"s + "abcdefgh";
  seeds.add("idx", "labels", labels);
  seeds.add("idx", "images", images);
  seeds.add("idx", "labels.gz", gzipped(labels));
  seeds.add("idx", "images.gz", gzipped(images));
}

std::vector<std::pair<std::string, std::string>> images() {
  const Image grey = smoothImage({.channels = 1, .height = 9, .width = 11});
  const Image colour = smoothImage({.channels = 3, .height = 17, .width = 16});
  const std::vector<std::uint8_t> inks(4 * 64, 77);
  const SampleShape inkShape{.channels = 4, .height = 8, .width = 8};
  return {{"grey.png", encodePng(grey)},
          {"colour.png", encodePng(colour)},
          {"grey.jpg", jpegOf(grey, {.quality = 40})},
          {"colour.jpg", jpegOf(colour, {.quality = 40})},
          {"progressive.jpg", jpegOf(colour, {.quality = 40, .progressive = true})},
          {"arithmetic.jpg", jpegOf(colour, {.quality = 40, .arithmetic = true})},
          {"arithmetic-progressive.jpg",
           jpegOf(colour, {.quality = 40, .progressive = true, .arithmetic = true})},
          {"inks.jpg", jpegOfRows(inks, inkShape, JCS_CMYK)},
          {"inks-ycck.jpg", jpegOfRows(inks, inkShape, JCS_CMYK, {.stored = JCS_YCCK})}};
}

void addCifar(const Seeds& seeds) {
  std::string names;
  for (int i = 0; i < 10; ++i) names += "class" + std::to_string(i) + "\n";
  const std::string record = cifar10File(3, 1);
  seeds.add("cifar", "ten", "\0"s + record);
  seeds.add("cifar", "hundred", "\1\x13"s + record);
  seeds.add("cifar", "names", "\2"s + names);
}

// Messages of example.proto, written by hand: field << 3 | 2, length, contents.
std::string field(int number, const std::string& contents) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (std::size_t rest = contents.size();; rest >>= 7) {
    out += static_cast<char>((rest & 0x7fu) | (rest > 0x7f ? 0x80u : 0u));
    if (rest <= 0x7f) break;
  }
  return out + contents;
}
std::string bytesFeature(const std::string& name, const std::string& value) {
  return field(1, field(1, name) + field(2, field(1, field(1, value))));
}
std::string numberFeature(const std::string& name, int value) {
  return field(1, field(1, name) + field(2, field(3, field(1, std::string(1, static_cast<char>(value))))));
}

void addTfrecord(const Seeds& seeds) {
  const std::string named = numberFeature("image/class/label", 3) + bytesFeature("image/class/text", "cat") +
                            bytesFeature("image/filename", "a.jpg");
  const std::string sizes =
      numberFeature("height", 4) + numberFeature("width", 5) + numberFeature("depth", 3);
  std::string all;
  for (const auto& [name, file] : images()) {
    const std::string record = frameRecord(field(1, bytesFeature("image/encoded", file) + named));
    seeds.add("tfrecord", name, record);
    all += record;
  }
  all += frameRecord(
      field(1, bytesFeature("image_raw", std::string(60, 'x')) + sizes + numberFeature("label", 1)));
  seeds.add("tfrecord", "all", all);

  const TestDirectory folder;
  TfrecordWriter writer(folder / "train.tfrecord");
  const std::vector<std::uint8_t> pixels = cifarPixels(1);
  writer.write(CifarPixels(pixels), 1);
  writer.commit();
  seeds.add("tfrecord", "cifar", readWholeFile(folder / "train.tfrecord"));
}

void addPacked(const Seeds& seeds) {
  const TestDirectory folder;
  const auto pixels = [](std::int64_t index, int c, int y, int x) {
    return static_cast<int>((index * 31 + c * 17 + y * 5 + x) % 256);
  };
  const auto open = [&](Split split) -> std::unique_ptr<ImageSet> {
    if (split == Split::Validation) return nullptr;
    return std::make_unique<ComputedImages>(3, SampleShape{.channels = 3, .height = 4, .width = 5}, 2,
                                            pixels);
  };
  packImages(open, folder / "pixels.pack");
  seeds.add("packed", "pixels", readWholeFile(folder / "pixels.pack"));

  // Images that have files: those of a TFRecord file would do, but a folder of classes keeps names too.
  int label = 0;
  for (const auto& [name, file] : images()) {
    const fs::path place = folder / "classes" / "train" / (++label % 2 == 0 ? "even" : "odd");
    fs::create_directories(place);
    writeTestFile(place / name, file);
  }
  const auto openFiles = [&](Split split) { return openImageFolder(folder / "classes", split); };
  packImages(openFiles, folder / "files.pack");
  seeds.add("packed", "files", readWholeFile(folder / "files.pack"));
}

void addSafetensors(const Seeds& seeds) {
  const TestDirectory folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<TensorToWrite> tensors = {{"conv1.weight", {2, 3}, values},
                                              {"conv1.bias", {2}, std::span(values).first(2)},
                                              {"step", {}, std::span(values).first(1)},
                                              {"none", {0, 7}, {}}};
  writeSafetensors(folder / "a", tensors, {{"format", "pt"}, {"cohort.step", "7"}});
  seeds.add("safetensors", "some", readWholeFile(folder / "a"));
  writeSafetensors(folder / "a", {}, {});
  seeds.add("safetensors", "empty", readWholeFile(folder / "a"));
}

void addRecords(const Seeds& seeds) {
  const TestDirectory folder;
  const std::vector<float> weights = {-1, 0, 1e-3f, 5};
  EventFiles events(folder / "events", 0);
  MetricsFile metrics(folder / "metrics.jsonl", 0);
  for (RecordSink* const sink : {static_cast<RecordSink*>(&events), static_cast<RecordSink*>(&metrics)}) {
    sink->add(TrainPoint{.step = 10, .epoch = 0.5, .loss = 2.3, .seconds = {.data = 1, .forward = 2}});
    sink->add(EvaluationPoint{.step = 10, .loss = 2.2, .accuracy = 0.3, .samples = 100});
    sink->add(ValuesPoint{.step = 10, .name = "weights/conv1.weight", .values = weights});
    sink->flush();
  }
  seeds.add("metrics", "run", readWholeFile(folder / "metrics.jsonl"));
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / "events")) {
    if (!entry.is_regular_file()) continue;
    seeds.add("events", entry.path().parent_path().filename().string(), readWholeFile(entry.path()));
  }
  ReceiptFile receipts(folder / "receipt.jsonl", 0);
  receipts.add({.step = 10, .loss = 2.3, .weights = "8767df94", .parameters = {{"conv1.weight", "b6b3"}}});
  receipts.flush();
  seeds.add("receipts", "run", readWholeFile(folder / "receipt.jsonl"));
}

void addMessages(const Seeds& seeds) {
  WorkerMessage message{.worker = 1, .process = 77, .step = 12, .isTraining = true, .beats = 99};
  message.waitsFor = "worker 0: its part of step 12";
  seeds.add("worker_message", "alive", toLine(message));
  message.text = "the disk is full";
  for (const auto& [kind, name] :
       {std::pair(WorkerMessage::Kind::Text, "text"), std::pair(WorkerMessage::Kind::Failed, "failed"),
        std::pair(WorkerMessage::Kind::Finished, "finished"),
        std::pair(WorkerMessage::Kind::Progress, "progress")}) {
    message.kind = kind;
    seeds.add("worker_message", name, toLine(message));
  }
}

void addJob(const Seeds& seeds) {
  const std::string layers = toJson({{.name = "conv1",
                                      .operatorText = "conv 5x5/1 same 32",
                                      .kind = "conv",
                                      .output = "32x24x24",
                                      .parameters = 832,
                                      .multiplyAdds = 460800,
                                      .activationBytes = 73728,
                                      .kernels = "jit:avx2",
                                      .forwardSeconds = 0.25}});
  seeds.add("layers", "one", layers);
  seeds.add(
      "layers", "uncountable",
      R"([{"name": "a", "operator": "b", "kind": "c", "output": "1", "parameters": 1e300, "multiply_adds": -1,
"activation_bytes": 0.5, "kernels": "", "forward_s": 1e300, "backward_s": 0, "update_s": 0}])");
  seeds.add("job", "layers", "\2"s + layers);
  seeds.add(
      "job", "summary",
      "\1"s + R"({"network": "mnist-cnn", "dataset": "synthetic", "step": 10, "loss": 2.3, "accuracy": null,
"top5": 0.5, "test_loss": 1, "elapsed_s": 3, "images_per_s": 100, "threads": 2, "interrupted": false,
"time": {"data_s": 1, "forward_s": 2}, "weights_hash": "00ff"})");
}

// Settings, nested and in lists; a map that holds itself; and lists that double in every line.
void addConfigurations(const Seeds& seeds) {
  const std::string texts[] = {
      "parallel: hybrid\nsplit: ['conv1=model', fc.*=data]\nmesh: data=2,model=2\nmode: 2dev-model\n",
      "network: mnist-cnn\nbatch-size: 128\nlr: 0.1\ntransforms:\n  - resize: 256\n  - flip\n",
      "optimizer:\n  name: momentum\n  lr: 1e-2\n  schedule: \"step:10:0.1\"\ncheckpoint: {every: 5, keep: "
      "2}\n",
      "data: &a {dataset: mnist, data: *a}\n",
      "optimizer: &a\n  optimizer: *a\n",
      "a: &a [x, y]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\ne: [*d, *d]\n",
      "---\n? [a, b]\n: |\n  text\n...\n---\nb: !!str 'x'\n"};
  int number = 0;
  for (const std::string& text : texts) {
    seeds.add("config", std::to_string(number), text);
    seeds.add("job", "config-" + std::to_string(number++), "\0"s + text);
  }
}

void addStrategies(const Seeds& seeds) {
  seeds.add(
      "cluster", "all",
      "hosts:\n- {name: n, count: 8, cores: 16, speed: 1.5, workers: 1}\n- {name: s, workers: 0, servers: 1, "
      "latency: 20us, "
      "bandwidth: 25Gbit}\nlinks: {latency: 50us, bandwidth: 10Gbit}\nsame-host: {latency: 1us, bandwidth: "
      "unlimited}\n"
      "compute: {seconds-per-sample: 1ms, seconds-per-step: 0.25, jitter: 0.1, distribution: exponential}\n");
  seeds.add("cluster", "troubles",
            "stragglers:\n- {worker: 3, factor: 4, from: 10, until: 1m}\n- {host: worker1, factor: "
            "1.5}\nfailures:\n"
            "- {host: worker5, at: 30s, back: 10s}\n- {mean-time-between: 2h, back: never}\n");
  seeds.add("cluster", "wrong",
            "hosts: [{name: [], count: 1e9}, *a]\nlinks: {latency: -1us, latency: nan}\n");
  seeds.add("strategy", "layers", "conv1: data\nfc6: model\n");
  seeds.add("strategy", "expressions",
            "'conv(1|2)': data\n\"fc[6-8]\": model\n.*/branch_\\d{1,2}: model\n\"a=b\": data\n");
  seeds.add("strategy", "twice", "{fc1: data, \"fc1\": model, fc2: ~, [a]: data}\n");
  seeds.add("strategy", "aliases", "&a fc1: &b model\nfc2: *b\n? *a\n: *b\n");
  seeds.add("strategy", "repetition", "'(((a{9}){9}|b*)+?c){9,}': model\n");
}

void addStudies(const Seeds& seeds) {
  seeds.add("study", "vary", R"(name: a
config: b.yaml
settings: {network: mnist-cnn, dataset: synthetic}
vary:
  batch-size: [32, 64]
  optimizer: [sgd, {name: momentum, lr: 0.1}]
repeat: 2
seeds: different
measure: [accuracy, images_per_s]
chart: {x: batch-size, y: accuracy, log: true}
)");
  seeds.add("study", "runs", "runs:\n  - {batch-size: 64, lr: 0.05}\n  - {batch-size: 32}\n");
  seeds.add("study", "self", "settings: &a\n  optimizer: *a\nvary: {lr: &b [1, *b]}\n");
  seeds.add("study", "doubling",
            "settings:\n  a: &a [x, y]\n  b: &b [*a, *a]\n  c: &c [*b, *b]\n  d: &d [*c, *c]\n  transforms: "
            "[*d, *d]\n");
}

void addClusters(const Seeds& seeds) {
  seeds.add("host_list", "ranges", "n[1-3,07-09],login");
  seeds.add("host_list", "brackets", "rack[0-1]node[01-02]-ib0");
  seeds.add("hosts_file", "roles",
            "# a run\na:1\tps\nb:2 worker cores=0-1,4\n[::1]:3 worker\nn[1-2]:4 worker\ne evaluator\n");
  seeds.add("tf_config", "worker",
            R"({"cluster": {"chief": ["a:1"], "worker": ["b:2", "[::1]:3"], "ps": ["c:4"]},)"
            R"( "task": {"type": "worker", "index": 1}, "environment": "cloud"})");
  seeds.add("tf_config", "evaluator",
            R"({"cluster": {"master": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})");
}

void addArchives(const Seeds& seeds) {
  const std::string archive =
      tarMember("a/b.bin", "contents") + tarMember("a", "", '5') + tarMember("link", "", '2') + tarEnd();
  seeds.add("tar", "plain", archive);
  seeds.add("tar", "gzipped", gzipped(archive));
  seeds.add("tar", "long",
            tarMember("././@LongLink", std::string(120, 'n'), 'L') + tarMember("n", "x") + tarEnd());
  seeds.add("tar", "extended",
            tarMember("x", "20 path=a/longer.bin\n", 'x') + tarMember("n", "x") + tarEnd());
}

void addCredentials(const Seeds& seeds) {
  const Credentials one = makeCredentials("a");
  const Credentials other = makeCredentials("a");
  seeds.add("credentials", "whole", one.authority + one.certificate + one.key);
  seeds.add("credentials", "other-key", one.authority + one.certificate + other.key);
  seeds.add("credentials", "other-authority", other.authority + one.certificate + one.key);
  seeds.add("credentials", "no-key", one.authority + one.certificate);
}

CenterFrame said(int link, const wire::Envelope& word, std::uint8_t payload = 0) {
  return {static_cast<std::uint8_t>(link), payload, word.SerializeAsString()};
}

// A run from its opening on, with a second worker, by its rule; then the first ends it.
std::vector<CenterFrame> conversation(const CenterSetup& setup, const std::vector<GrainRange>& parts) {
  const auto all = static_cast<std::uint8_t>(kTinySize * sizeof(float));
  const GrainTree tree(setup.grains);
  std::vector<CenterFrame> frames = {said(2, words::hello({.token = 2})),
                                     said(2, words::setup(setup)),
                                     said(2, words::load(kWeights), 20),
                                     said(2, words::load(kWeights, 5), 24),
                                     said(2, words::load("momentum"), all),
                                     said(2, words::loaded()),
                                     said(2, words::enter()),
                                     said(3, words::hello({.token = 3})),
                                     said(3, words::enter()),
                                     said(3, words::pull(0, 1, {"weights", "momentum"}))};
  int link = 2;
  for (const GrainRange& part : parts) {
    for (const int node : tree.cover(part)) {
      frames.push_back(said(link, words::push({.node = node}), 20));
      frames.push_back(said(link, words::push({.node = node, .offset = 5}), 24));
    }
    frames.push_back(said(link, words::finished({0, part})));
    frames.push_back(said(link, words::commit(0, parts)));
    link = 5 - link;
  }
  for (const wire::Envelope& word :
       {words::reopen(setup.opening), words::halt(), words::settled(), words::bye()})
    frames.push_back(said(2, word));
  frames.push_back({.place = 2 | 2 << 3});  // its link ends
  frames.push_back({.place = 3 << 3});      // and somebody halts the server
  return frames;
}

void addConversations(const Seeds& seeds) {
  unsigned char start = 0;
  for (const char* rule : {"async", "ssp", "bsp", "backup"}) {
    CenterSetup setup = tinySetup(rule, 3);
    setup.rule.members = 2;
    const std::vector<CenterFrame> whole = conversation(setup, {{0, 3}});
    const std::vector<CenterFrame> shared = conversation(setup, {{0, 1}, {1, 3}});
    for (const unsigned char open : {0, 4, 8, 12}) {
      const std::string first(1, static_cast<char>(start | open));
      const std::string name = rule + std::to_string(open);
      seeds.add("center", name, first + bytesOf(whole));
      seeds.add("center", name + "-shared", first + bytesOf(shared));
    }
    ++start;
  }
}

void addSnapshots(const Seeds& seeds) {
  const TestDirectory folder;
  for (const OptimizerKind optimizer : {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Adam}) {
    for (const std::uint32_t server : {0U, 1U}) {
      CenterSetup setup = tinySetup();
      setup.optimizer.kind = optimizer;
      Snapshot snapshot;
      *snapshot.head.mutable_setup() = toWire(setup);
      snapshot.head.set_server(server);
      snapshot.head.set_servers(2);
      snapshot.head.set_version(12);
      StepSet steps(5);
      for (const Step step : {7, 8, 12}) steps.insert(step);
      setApplied(snapshot.head, steps);
      snapshot.head.set_done(5);
      snapshot.head.set_next(13);
      snapshot.head.add_open(6);
      const std::size_t size = sliceOfServer(kTinySize, static_cast<int>(server), 2).size();
      for (std::size_t i = 0; i <= slotNames(setup.optimizer).size(); ++i) snapshot.arenas.emplace_back(size);
      writeSnapshot(folder / "snapshot", std::move(snapshot));
      seeds.add("snapshot", std::to_string(static_cast<int>(optimizer)) + "-" + std::to_string(server),
                readWholeFile(folder / "snapshot"));
    }
  }
}

void addJournals(const Seeds& seeds) {
  const TestDirectory folder;
  for (const char* rule : {"async", "easgd", "gossip", "bsp", "backup"}) {
    JournalHead head{.setup = tinySetup(rule, 4), .server = 1, .servers = 2, .life = 9, .version = 3};
    const bool isAlone = head.setup.rule.name == "async" || head.setup.rule.hasOwnWeights;
    if (isAlone) head.parent = 8;
    JournalWriter writer(folder.path(), [](const std::string&) {});
    writer.begin(head);
    for (Step step = 3; step < 12; ++step) {
      const std::vector<ServerVersion> seen{{7, step - 1}, {step == 3 ? 8U : 9U, step - step % 2}};
      const std::vector<GrainRange> grains{{0, 1}, {2, 4}};
      JournalUpdate update{.member = static_cast<MemberId>(step % 2), .step = step, .basis = step - step % 2};
      const std::vector<Step> steps{step - 2, step - 1, step};
      if (isAlone) update.seen = seen;
      if (head.setup.rule.hasOwnWeights) {
        update.exchange = (step - 1) / 2;
        update.steps = steps;
        if (update.exchange == 1) update.begunWith = seen;
      }
      if (head.setup.rule.name == "backup" && step % 2 == 0) update.grains = grains;
      if (!isAlone) update.member = -1;
      writer.add(update, 5);
      if (applicationOf(head.setup.rule) == Application::Mail && step == 7)
        writer.add({.member = update.member, .isLeaving = true}, 5);
    }
    writer.end();
    const fs::path path = folder / journalName(head.setup.opening, head.server, head.life);
    seeds.add("journal", rule, readWholeFile(path));
    fs::remove(path);
  }
}

void addFrames(const Seeds& seeds) {
  const std::vector<std::pair<std::string, wire::Envelope>> said = {
      {"hello", words::hello({})},
      {"setup", words::setup(tinySetup())},
      {"load", words::load(kWeights)},
      {"push", words::push({.step = 3})},
      {"commit", words::commit(4, {{0, 1}, {1, 3}})},
      {"finished", words::finished({3, {0, 2}})}};
  for (const auto& [name, word] : said) {
    const std::vector<float> floats(name == "load" || name == "push" ? kTinySize : 0);
    std::vector<grpc::Slice> slices;
    if (!toBytes(word, floats, nullptr).Dump(&slices).ok()) throw std::runtime_error("no bytes");
    std::string bytes(1, '\x05');
    for (const grpc::Slice& slice : slices)
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    seeds.add("frame", name, bytes);
  }
}

void makeSeeds(const fs::path& folder) {
  const Seeds seeds(folder);
  addIdx(seeds);
  for (const auto& [name, file] : images()) seeds.add("image", name, file);
  addCifar(seeds);
  addTfrecord(seeds);
  addPacked(seeds);
  addSafetensors(seeds);
  addRecords(seeds);
  addJob(seeds);
  addMessages(seeds);
  addConfigurations(seeds);
  addStrategies(seeds);
  addStudies(seeds);
  addClusters(seeds);
  addArchives(seeds);
  addCredentials(seeds);
  addConversations(seeds);
  addSnapshots(seeds);
  addJournals(seeds);
  addFrames(seeds);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_seeds FOLDER\n", stderr);
    return 2;
  }
  cohort::makeSeeds(argv[1]);
  return 0;
}
