// TensorBoard's event files: framed records (base/record_file.h), each a message of event.proto.
//
// A folder is what TensorBoard calls a run. Training and each split that is evaluated have a folder of their own, so that
// their curves of the same name lie in one diagram:
//
//   DIRECTORY/train/events.out.tfevents.SECONDS.HOST.PID         loss, accuracy, epoch, learning_rate, images_per_second,
//                                                                time/data, time/forward, … (shares of 1), histograms
//   DIRECTORY/test/…, DIRECTORY/validation/…                     loss, accuracy, top5
//
// Each process adds a file. Its name sorts behind those of the processes before, since TensorBoard reads in this order. It
// begins with the format's version and with a mark of where the process started, at which TensorBoard drops the points
// that an earlier, killed process recorded for later steps.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/histogram.h"
#include "report/records.h"

namespace cohort {

// A killed process leaves whole records, but for the last one perhaps. All failures are IoErrors that name the file; points
// are kept then, and written by a later flush that succeeds. Used by one thread.
class EventFiles : public RecordSink {
 public:
  // Creates the folder for training and its file, so that an unwritable disk is told before the first step. `startStep`:
  // steps done before this process, 0 or a checkpoint's.
  EventFiles(std::filesystem::path directory, Step startStep);
  // Flushes; a failure is not told any more.
  ~EventFiles() override;
  EventFiles(const EventFiles&) = delete;
  EventFiles& operator=(const EventFiles&) = delete;

  void add(const TrainPoint& point) override;
  void add(const EvaluationPoint& point) override;
  void add(const ValuesPoint& point) override;
  void flush() override;

 private:
  class File;
  File& file(const std::string& folder);

  std::filesystem::path directory_;
  Step startStep_;
  std::map<std::string, std::unique_ptr<File>> files_;  // by folder
};

// An event as it is read back; what Cohort never writes (images, graphs, …) is left out.
struct EventRecord {
  struct Value {
    std::string tag;
    std::optional<float> scalar;  // also from TensorFlow 2, which stores it as a tensor
    std::optional<Histogram> histogram;
  };
  double wallTime = 0;  // seconds since 1970
  Step step = 0;
  std::string fileVersion;
  bool sessionStart = false;
  std::vector<Value> values;
};

// All whole records of a file; a last one that ends too early is left out. IoError where a checksum is wrong or a record is
// no event.
std::vector<EventRecord> readEvents(const std::filesystem::path& path);

}  // namespace cohort
