# SPDX-License-Identifier: Apache-2.0
#
# Sends two notifications with the files of a simulator's folder, and prints what comes back in hexadecimal: first with
# the old PKCS#12 file, then with PEM, whose key has to be an RSA key.
# Arguments: folder, port, host name, the token of the first notification, the token of the second one.

require 'openssl'
require 'socket'

folder, port, name, good, bad = ARGV

def frame(identifier, token)
  payload = '{"aps":{"alert":"hello"}}'
  device = [token].pack('H*')
  [1, identifier, 0, device.bytesize].pack('CNNn') + device + [payload.bytesize].pack('n') + payload
end

bundle = OpenSSL::PKCS12.new(File.binread("#{folder}/provider-legacy.p12"), File.read("#{folder}/passphrase.txt").chomp)
pem = File.read("#{folder}/provider-combined.pem")
pairs = [
  [bundle.certificate, bundle.key],
  [OpenSSL::X509::Certificate.new(pem), OpenSSL::PKey::RSA.new(pem)],
  [OpenSSL::X509::Certificate.new(pem), OpenSSL::PKey::RSA.new(File.read("#{folder}/provider-traditional.key.pem"))],
]
pairs.each do |certificate, key|
  context = OpenSSL::SSL::SSLContext.new
  context.ca_file = "#{folder}/authority.pem"
  context.verify_mode = OpenSSL::SSL::VERIFY_PEER
  context.cert = certificate
  context.key = key
  socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new('127.0.0.1', port.to_i), context)
  socket.sync_close = true
  socket.hostname = name
  socket.connect
  socket.post_connection_check(name)
  socket.write(frame(1, good) + frame(2, bad))
  puts socket.read.unpack1('H*')
  socket.close
end
