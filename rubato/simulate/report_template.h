// The report's page as the build puts it together from report/: HTML with its style and script
// inside, and /*DATA*/ where the data goes.
#ifndef RUBATO_SIMULATE_REPORT_TEMPLATE_H_
#define RUBATO_SIMULATE_REPORT_TEMPLATE_H_

namespace rubato {
extern const char* const kReportTemplate;
}  // namespace rubato

#endif  // RUBATO_SIMULATE_REPORT_TEMPLATE_H_
