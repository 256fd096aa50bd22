# cmake -DFOLDER=... -DOUT=... -P embed.cmake: joins page, style and scripts into one C++ string.
file(READ "${FOLDER}/report.html" page)
file(READ "${FOLDER}/report.css" css)
set(js "")
foreach(part data time_axis utilisation gantt queue bars table main)
  file(READ "${FOLDER}/${part}.js" text)
  string(APPEND js "${text}")
endforeach()
string(REPLACE "/*CSS*/" "${css}" page "${page}")
string(REPLACE "/*JS*/" "${js}" page "${page}")
file(WRITE "${OUT}" "#include \"rubato/simulate/report_template.h\"
namespace rubato {
const char* const kReportTemplate = R\"~page~(${page})~page~\";
}  // namespace rubato
")
